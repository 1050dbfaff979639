// An order is paid and the message about it is sent, or neither: both are one transaction.
//
//     npm install
//     node orders.js postgresql://app@localhost/shop
const { Client } = require('pg');

const CONFLICTS = ['40001', '40P01'];

// Runs work in a transaction; after a conflict with another one, the whole of it again.
async function inTransaction(client, work, tries = 5) {
  for (;;) {
    try {
      await client.query('begin');
      const result = await work();
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback');
      tries -= 1;
      if (!CONFLICTS.includes(error.code) || tries === 0) throw error;
    }
  }
}

async function pay(client, order) {
  await client.query("insert into orders values ($1, 'paid') on conflict do nothing", [order]);
  const { rows } = await client.query(
    'select id, created, seq from outbox.enqueue($1, $2, key => $3, dedupe_key => $4)',
    ['orders.paid', { order },
      `order-${order}`, // events of one order are delivered in order
      `paid-${order}`], // sent once, however often this runs
  );
  return rows[0];
}

async function main(url) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('create table if not exists orders (id int primary key, state text not null)');
    for (let i = 0; i < 2; i += 1) { // the second call finds the same message
      const { id, created, seq } = await inTransaction(client, () => pay(client, 42));
      console.log(`paid 42: message ${id}, created ${created}, seq ${seq}`);
    }
    await inTransaction(client, async () => {
      await pay(client, 43);
      throw new Error('the card was refused after all');
    }).catch(() => console.log('rolled back 43')); // no order, no message, the dedupe key is unused
  } finally {
    await client.end();
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
