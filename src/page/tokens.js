// tokens.js - who may ask this relay what. A token's text is shown once, when it is made.

import { h, fill, when, panel, table, empty, badge, copyButton, toast } from './dom.js';
import { get, post, del, may } from './client.js';
import { askForm, actButton, readOnlyNote, copyAsButton } from './acts.js';

export const title = 'Tokens';

function create(again) {
  askForm('Create a token', 'Give people the lowest role that will do: a viewer sees everything and changes nothing.', [
    ['name', 'Name', { required: true, maxlength: 100 }], ['role', 'Role', { options: ['viewer', 'operator', 'admin'], value: 'viewer' }],
    ['tenant', 'Tenant (a uuid; empty: all)', {}], ['expires', 'Expires after', { value: '90d', placeholder: 'never' }]], 'Create', async (values) => {
    const made = await post('tokens', values);
    again();
    return h('div', {}, h('p', {}, `The token ${values.name}. It is shown this once; the outbox keeps only its hash.`),
      h('div.secret', {}, h('code', {}, made.token), copyButton(made.token, 'Copy the token')));
  });
}

function revoke(row, again) {
  askForm('Revoke', `Whoever uses the token “${row.name}” is refused from now on. This cannot be undone.`, [], 'Revoke', async () => {
    await del(`tokens/${encodeURIComponent(row.name)}`);
    toast(`Revoked ${row.name}.`);
    await again();
  }, true);
}

export async function show({ body, signal }) {
  if (!may('admin')) return fill(body, readOnlyNote('admin')) && null;
  const list = h('div', {});
  const load = async () => {
    const { tokens: rows } = await get('tokens', {}, signal);
    fill(list, rows.length ? table('Tokens', [['name', (t) => h('b', {}, t.name)], ['role', (t) => badge(t.role)], ['tenant', (t) => t.tenant_id || 'all'],
      ['created', (t) => [when(t.created_at), t.created_by && ` by ${t.created_by}`]], ['expires', (t) => (t.expires_at ? when(t.expires_at) : 'never')],
      ['last used', (t) => (t.used_at ? when(t.used_at) : 'never')], ['state', (t) => (t.revoked_at ? badge('discarded', 'revoked') : badge('running', 'valid'))],
      ['', (t) => !t.revoked_at && actButton('admin', 'Revoke …', () => revoke(t, load), 'danger')]], rows) : empty('No token.'));
  };
  await load();
  fill(body, panel('Tokens', list, actButton('admin', 'Create a token …', () => create(load), 'primary')),
    h('p', {}, copyAsButton(() => [['Command line', 'outbox token list']])));
  return load;
}
