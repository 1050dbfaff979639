/* test_suite.c - JSON Schema against draft 7 of the json-schema-test-suite package: every file, required and optional.
 *
 * What is left out stands in the table below, with the reason, and is counted: a new hole makes this test fail. Proves:
 * S12. */
#include "jsonschema/schema.h"
#include "jsonschema/tree.h"
#include "ob_test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define SUITE "/usr/share/json-schema-test-suite/tests/draft7"

/* group NULL: the whole file. docs/jsonschema.md repeats this table. */
static const struct {
    const char *file, *group, *why;
    unsigned tests;
} left_out[] = {
    {"refRemote.json", NULL, "refers to other documents, and nothing is fetched", 15},
    {"ref.json", "remote ref, containing refs itself", "refers to the meta-schema, another document", 2},
    {"definitions.json", "valid definition", "refers to the meta-schema, another document", 1},
    {"definitions.json", "invalid definition", "refers to the meta-schema, another document", 1},
    {"optional/content.json", NULL, "contentMediaType and contentEncoding are notes, as 2019-09 has it", 10},
    {"optional/format/idn-hostname.json", NULL, "needs the tables of IDNA", 4},
    {"optional/format/regex.json", NULL, "patterns in payloads are not compiled", 2},
    {"optional/ecmascript-regex.json", "ECMA 262 regex non-compliance", "patterns in payloads are not compiled", 1},
};

enum { LEFT_OUT = 36, LEAST_RUN = 530 };

static struct {
    unsigned run, wrong, out[OB_COUNT(left_out)];
} tally;

static const char *text_of(const struct ob_tree *value, char text[128])
{
    snprintf(text, 128, "%.*s", (int)value->string.len, value->string.data);
    return text;
}

static bool is_left_out(const char *file, const char *group, size_t tests)
{
    for (size_t i = 0; i < OB_COUNT(left_out); i++) {
        if (strcmp(left_out[i].file, file) != 0 || (left_out[i].group && strcmp(left_out[i].group, group) != 0))
            continue;
        tally.out[i] += (unsigned)tests;
        return true;
    }
    return false;
}

static void run_group(const char *file, const char *text, const struct ob_tree *group)
{
    char name[128], about[128];
    struct ob_jsonschema *schema;
    struct outbox_error err;
    const struct ob_tree *source = ob_tree_gets(group, "schema"), *tests = ob_tree_gets(group, "tests");
    text_of(ob_tree_gets(group, "description"), name);
    if (is_left_out(file, name, tests->array.count))
        return;
    if (ob_jsonschema_compile(text + source->offset, source->len, file, &schema, NULL, &err)) {
        print_error("%s: %s: %s\n", file, name, err.text);
        tally.wrong++;
        return;
    }
    for (size_t i = 0; i < tests->array.count; i++) {
        const struct ob_tree *test = &tests->array.items[i], *data = ob_tree_gets(test, "data");
        struct ob_jsonschema_fault fault = {.text = ""};
        enum outbox_code code = ob_jsonschema_check(schema, text + data->offset, data->len, &fault);
        bool valid = ob_tree_gets(test, "valid")->boolean;
        tally.run++;
        if (code == (valid ? OUTBOX_OK : OUTBOX_INVALID) && (valid || fault.text[0]))
            continue;
        text_of(ob_tree_gets(test, "description"), about);
        print_error("%s: %s: %s: wanted %s, got %d %s\n", file, name, about, valid ? "valid" : "invalid", code,
                    fault.text);
        tally.wrong++;
    }
    ob_jsonschema_free(schema);
}

static void run_file(const char *name)
{
    char path[1024];
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_arena arena;
    struct ob_tree groups;
    struct ob_tree_fault why;
    snprintf(path, sizeof path, "%s/%s", SUITE, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (size_t len = 1; len;) {
        char *room = ob_buf_reserve(&buf, 65536);
        assert_non_null(room);
        ob_buf_added(&buf, len = fread(room, 1, 65536, file));
    }
    fclose(file);
    ob_arena_init(&arena, 0);
    assert_int_equal(ob_tree_read(&arena, ob_buf_text(&buf), buf.len, &groups, &why), OUTBOX_OK);
    for (size_t i = 0; i < groups.array.count; i++)
        run_group(name, ob_buf_text(&buf), &groups.array.items[i]);
    ob_arena_fini(&arena);
    ob_buf_fini(&buf);
}

static void run_folder(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", SUITE, folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!strstr(entry->d_name, ".json"))
            continue;
        snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", entry->d_name);
        run_file(path);
    }
    closedir(dir);
}

static void all_of_draft_7_passes_but_what_is_counted(void **state)
{
    (void)state;
    DIR *dir = opendir(SUITE);
    if (!dir)
        OB_SKIP("the package json-schema-test-suite is not installed: tools/deps test");
    closedir(dir);
    unsigned out = 0;
    run_folder("");
    run_folder("optional");
    run_folder("optional/format");
    for (size_t i = 0; i < OB_COUNT(left_out); i++) {
        if (tally.out[i] != left_out[i].tests)
            print_error("%s: left out %u, but the table says %u\n", left_out[i].file, tally.out[i], left_out[i].tests);
        assert_int_equal(tally.out[i], left_out[i].tests);
        out += tally.out[i];
    }
    print_message("# draft 7: %u tests pass, %u are left out\n", tally.run - tally.wrong, out);
    assert_int_equal(tally.wrong, 0);
    assert_int_equal(out, LEFT_OUT);
    assert_true(tally.run >= LEAST_RUN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_of_draft_7_passes_but_what_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
