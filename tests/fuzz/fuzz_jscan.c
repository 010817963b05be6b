/*
 * base/jscan.c against jansson. libFuzzer entry point; the seeds are in
 * corpus/jscan.
 *
 * What jansson takes, ours takes, unless it is nested deeper than 64 levels. What ours
 * takes, jansson takes, unless it holds an escape (half a character) or a digit (a number
 * that no double holds). Where both take it, strings are equal.
 */
#include "base/jscan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static unsigned deepest(const json_t *v)
{
	unsigned most = 0, here;
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_array(v)) {
		json_array_foreach(v, i, item) {
			here = deepest(item);
			most = here > most ? here : most;
		}
	}
	if (json_is_object(v)) {
		json_object_foreach((json_t *)(uintptr_t)v, key, item) {
			here = deepest(item);
			most = here > most ? here : most;
		}
	}
	return most + (json_is_array(v) || json_is_object(v));
}

static void same(struct jscan v, const json_t *other)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct jscan key, value;
	char *text = NULL;
	size_t at = 0, n = 0, len = 0;

	if (json_is_string(other)) {
		require(jscan_string(v, false, &text, &len, &err) == 0);
		require(len == json_string_length(other));
		require(memcmp(text, json_string_value(other), len) == 0);
		free(text);
	}
	if (!json_is_array(other))
		return;
	for (; jscan_next(v, &at, &key, &value); n++)
		same(value, json_array_get(other, n));
	require(n == json_array_size(other));
}

static bool has_escape_or_digit(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] == '\\' || (data[i] >= '0' && data[i] <= '9'))
			return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = size ? (const char *)data : "";
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct jscan v = { 0 };
	bool is_json = jscan_check(&v, text, size, &err) == 0;
	json_t *other;

	if (memchr(text, '\0', size)) {
		require(!is_json); /* for jansson the text ends there */
		return 0;
	}
	other = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

	if (other && !is_json)
		require(deepest(other) > JSCAN_DEPTH_MAX);
	if (!other && is_json)
		require(has_escape_or_digit(text, size));
	if (other && is_json)
		same(v, other);
	json_decref(other);
	return 0;
}
