#include "base/sha256.h"

#include <string.h>

#include "support.h"

static void assert_hash(const char *text, size_t count, const char *expected)
{
    struct xt_sha256_digest digest = xt_sha256(text, count);
    assert_string_equal(xt_sha256_format(&digest).text, expected);
}

/* Examples of FIPS 180-4's author, NIST. */
static void the_published_examples_come_out(void **state)
{
    (void)state;
    assert_hash(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void pieces_of_any_length_give_the_same_hash(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'a', sizeof text);
    struct xt_sha256_digest whole = xt_sha256(text, sizeof text);
    for (size_t step = 1; step < 130; step++) {
        struct xt_sha256 hash;
        xt_sha256_begin(&hash);
        for (size_t at = 0; at < sizeof text; at += step)
            xt_sha256_add(&hash, text + at, sizeof text - at < step ? sizeof text - at : step);
        struct xt_sha256_digest digest = xt_sha256_end(&hash);
        assert_memory_equal(digest.bytes, whole.bytes, sizeof whole.bytes);
    }
}

/* Whichever way this CPU computes it, the portable one gives the same. */
static void without_the_instructions_the_hash_is_the_same(void **state)
{
    (void)state;
    struct xt_sha256 hash;
    char text[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    struct xt_sha256_digest expected = xt_sha256(text, sizeof text);
    xt_sha256_begin(&hash);
    hash.fast = false;
    xt_sha256_add(&hash, text, sizeof text);
    struct xt_sha256_digest digest = xt_sha256_end(&hash);
    assert_memory_equal(digest.bytes, expected.bytes, sizeof expected.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_examples_come_out),
        cmocka_unit_test(pieces_of_any_length_give_the_same_hash),
        cmocka_unit_test(without_the_instructions_the_hash_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
