/* By which names the service may be asked. */
#include "support.h"

#include "cli/serve/hosts.h"

static void on_the_loopback_only_its_own_names_are_taken(void **state)
{
    (void)state;
    const struct xt_hosts hosts = {0};
    static const char *const taken[] = {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]",
                                        "[::1]:80"};
    static const char *const refused[] = {
        "",      "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::1",
        "[::2]", ":80"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        assert_true(xt_hosts_allow(&hosts, taken[i]));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_false(xt_hosts_allow(&hosts, refused[i]));
    assert_false(xt_hosts_allow(&hosts, NULL));
}

static void named_ones_are_taken_too_and_where_all_may_any(void **state)
{
    (void)state;
    const struct xt_hosts hosts = {.allowed = "plates.example,other"};
    assert_true(xt_hosts_allow(&hosts, "Plates.Example:443"));
    assert_true(xt_hosts_allow(&hosts, "other"));
    assert_false(xt_hosts_allow(&hosts, "plates.example,other"));
    assert_false(xt_hosts_allow(&hosts, "plates"));
    assert_true(xt_hosts_allow(&(struct xt_hosts){.any = true}, "whoever.example"));
}

/* Two ports of one machine are two sites. */
static void a_page_may_ask_the_host_it_came_from(void **state)
{
    (void)state;
    const struct xt_hosts hosts = {.allowed = "plates.example"};
    assert_true(xt_hosts_allow_origin(&hosts, "http://127.0.0.1:8080", "127.0.0.1:8080"));
    assert_false(xt_hosts_allow_origin(&hosts, "http://127.0.0.1:3000", "127.0.0.1:8080"));
    assert_false(xt_hosts_allow_origin(&hosts, "http://evil.example", "127.0.0.1:8080"));
    assert_false(xt_hosts_allow_origin(&hosts, "null", "127.0.0.1:8080"));
    assert_true(xt_hosts_allow_origin(&hosts, "https://plates.example", "127.0.0.1:8080"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_loopback_only_its_own_names_are_taken),
        cmocka_unit_test(named_ones_are_taken_too_and_where_all_may_any),
        cmocka_unit_test(a_page_may_ask_the_host_it_came_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
