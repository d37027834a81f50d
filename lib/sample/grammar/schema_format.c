/* SPDX-License-Identifier: MIT */
/* Formats of strings, as regular expressions (RFC 3339, 4122, 5321, 1123, 2673, 4291, 3986,
 * 6901). */
#include <string.h>

#include "sample/grammar/schema_parts.h"

/* Without the year 0. */
#define YEAR "(\\d{3}[1-9]|\\d\\d[1-9]\\d|\\d[1-9]\\d\\d|[1-9]\\d{3})"
#define LEAP "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|" \
             "02-(0[1-9]|1\\d|2[0-8]))|" LEAP "-02-29)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"

#define DURATION "P(\\d{1,9}W|\\d{1,9}D" OF_TIME "?|(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|" \
                 "\\d{1,9}M(\\d{1,9}D)?)" OF_TIME "?|" OF_TIME ")"
#define OF_TIME "(T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))"

#define HEX "[0-9A-Fa-f]"
#define UUID HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"

/* At most 253 characters: eight names of 30, or three of 63. */
#define ALNUM "[0-9A-Za-z]"
#define LABEL(most) ALNUM "([0-9A-Za-z\\-]{0," most "}" ALNUM ")?"
#define HOSTS(most, more) LABEL(most) "(\\." LABEL(most) "){0," more "}"
#define HOST "(" HOSTS("28", "7") "|" HOSTS("61", "2") ")"

/* At most 64 characters before the @. */
#define ATOM "[0-9A-Za-z!#$%&'*+/=?^_`{|}~\\-]{1,20}"
#define EMAIL ATOM "(\\." ATOM "){0,2}@" HOSTS("28", "7")

#define OCTET "(\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
#define IPV4 OCTET "\\." OCTET "\\." OCTET "\\." OCTET

/* Eight groups of hexadecimal digits, a run of which may be left out; the last two may be an
 * IPv4 address. */
#define H16 HEX "{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6 "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|" \
             "(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|" \
             "((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|" \
             "((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|" \
             "((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|" \
             "((" H16 ":){0,6}" H16 ")?::)"

#define UNRESERVED "0-9A-Za-z\\-._~"
#define SUB_DELIMS "!$&'()*+,;="
#define ESCAPED "%" HEX HEX
#define PCHAR "([" UNRESERVED SUB_DELIMS ":@]|" ESCAPED ")"
#define SEGMENT PCHAR "*"
#define NO_COLON "([" UNRESERVED SUB_DELIMS "@]|" ESCAPED ")+"
#define USER "(([" UNRESERVED SUB_DELIMS ":]|" ESCAPED ")*@)?"
#define NAME "([" UNRESERVED SUB_DELIMS "]|" ESCAPED ")*"
#define AUTHORITY USER "(\\[" IPV6 "\\]|" NAME ")(:\\d{0,5})?"
#define ABSOLUTE "/(" PCHAR "+(/" SEGMENT ")*)?"
#define ABEMPTY "(/" SEGMENT ")*"
#define ENDING "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define URI "[A-Za-z][0-9A-Za-z+.\\-]*:(//" AUTHORITY ABEMPTY "|" ABSOLUTE "|" \
            PCHAR "+(/" SEGMENT ")*|)" ENDING
#define RELATIVE "(//" AUTHORITY ABEMPTY "|" ABSOLUTE "|" NO_COLON "(/" SEGMENT ")*|)" ENDING

static const struct format {
    const char *name, *expression;
} formats[] = {
    { "date", DATE },
    { "time", TIME },
    { "date-time", DATE "T" TIME },
    { "duration", DURATION },
    { "uuid", UUID },
    { "email", EMAIL },
    { "hostname", HOST },
    { "ipv4", IPV4 },
    { "ipv6", IPV6 },
    { "uri", URI },
    { "uri-reference", "(" URI "|" RELATIVE ")" },
    { "json-pointer", "(/([^~/]|~[01])*)*" },
};

static const struct format *find(const struct lm_jval *v)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (v->len == strlen(formats[i].name) && !memcmp(formats[i].name, v->str, v->len))
            return &formats[i];
    return NULL;
}

const char *lm_format_expression(const struct lm_jval *format)
{
    const struct format *f = find(format);
    return f ? f->expression : NULL;
}

bool lm_format_known(const struct lm_jval *format)
{
    static const char regex[] = "regex";          /* known, and refused */
    return find(format) || (format->len == strlen(regex) && !memcmp(format->str, regex, 5));
}
