/* loadgen: a closed-loop load generator for queue daemons, one thread, epoll, no dependencies.
 *
 * Each connection keeps `in-flight` items under way and starts the next one only when a reply has
 * come back, so what is measured is what the server does, not how far a backlog grows.
 *
 * The one rule: every reply is checked, bodies included. Anything unexpected ends the run with the
 * text of the reply; a figure is printed for work that was done, never for work that was refused.
 *
 * An item is one unit of work; a request is one trip to the server:
 *
 *   dialect            requests of one item                                expected replies
 *   memcache-set       set Q 0 0 N                                         STORED
 *   memcache-spread    set Q<connection> 0 0 N   (a queue for each)         STORED
 *   memcache-named     set Q<seed>-<number> 0 0 N   (Q: jobs/id= or jobs/key=)  STORED
 *   memcache-consume   get Q/close/open   (first: Q/open, last: Q/close)   VALUE, or END = empty
 *   memcache-return    get Q/open, then get Q/abort                       VALUE, or END; END
 *   memcache-handoff   set Q-2/confirm 0 0 N with the next get Q/open      STORED; VALUE, or END
 *                      behind it, in one trip (odd connections: from)
 *   memcache-get       mg Q v             (stored once before the start)   VA
 *   redis-push         LPUSH Q body                                        :length
 *   redis-consume      LMOVE Q P RIGHT LEFT, then LREM P -1 body           $body, :1   ($-1 = empty)
 *   beanstalk-put      put 0 0 3600 N                                      INSERTED
 *   beanstalk-consume  reserve-with-timeout 0, then delete ID              RESERVED, DELETED
 *   nats-put           PUB Q, to a stream                                  MSG with its "seq"
 *   nats-consume       PUB $JS.API.CONSUMER.MSG.NEXT.Q.Q, then +ACK        MSG with the body; MSG
 *                      with a reply: the server says when that is kept     (HMSG 404 = empty)
 *   amqp-put           Basic.Publish to Q, a quorum queue on three nodes   Basic.Ack
 *   amqp-consume       Basic.Consume Q once, then Basic.Ack of each item   Basic.Deliver: with a
 *                      prefetch of one, the next one comes when that is kept
 *
 *   body = seed(8 hex) ' ' connection(5) ' ' number(10) ' ' filler made from the seed
 *
 * `number` counts from 0 over all connections. A consumer checks length, seed and filler, and that
 * no number comes twice; so N items consumed after N stored are exactly those that were stored. What
 * is returned or handed off comes again: there only the bytes are checked.
 *
 * Requests on one connection are answered in order; a ring remembers what was asked. Everything is
 * bounded: items, seconds, a time limit without appeal, loopback addresses only.
 *
 * memcache-get is the ceiling, for memcached only. It uses the meta command because memcached
 * sends off each answer to a plain `get` by itself, however many were asked for at once.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_CONNECTIONS = 4096,
    MAX_IN_FLIGHT = 1024,
    MAX_BODY = 8 << 20,
    MAX_ITEMS = 1 << 27, /* one bit each while consuming: 16 MiB */
    MAX_SECONDS = 3600, /* ten million items on a slow disk */
    TIME_LIMIT_S = 60, /* for a number of items; --seconds get GRACE_S on top */
    GRACE_S = 15,
    MAX_QUEUE_NAME = 64,
    HEADER = 26, /* the part of a body that tells items apart */
    REQUEST_ROOM = 512, /* verbs, names and numbers around a body */
    EVENTS = 256,
    TICK_MS = 50,
    CONNECT_TIMEOUT_S = 5,
    MAX_INFO = 1 << 16, /* what a server of NATS says of itself */
    MAX_AMQP_BODY = 100000, /* fits into one frame of any server */
    FRAME_HEAD = 7, FRAME_ALL = 8, /* bytes around what a frame has, before it and in all */
    METHOD_FRAME = 1, HEADER_FRAME = 2, BODY_FRAME = 3, FRAME_END = 0xCE,
};

/* ---- what is asked for ---------------------------------------------------------------------- */

typedef enum {
    MEMCACHE_SET, MEMCACHE_SPREAD, MEMCACHE_NAMED, MEMCACHE_CONSUME, MEMCACHE_RETURN,
    MEMCACHE_HANDOFF, MEMCACHE_GET, REDIS_PUSH, REDIS_CONSUME, BEANSTALK_PUT, BEANSTALK_CONSUME,
    NATS_PUT, NATS_CONSUME, AMQP_PUT, AMQP_CONSUME, DIALECTS
} dialect_t;

static const char *const DIALECT_NAMES[DIALECTS] = {
    "memcache-set", "memcache-spread", "memcache-named", "memcache-consume", "memcache-return",
    "memcache-handoff", "memcache-get",
    "redis-push", "redis-consume", "beanstalk-put", "beanstalk-consume", "nats-put", "nats-consume",
    "amqp-put", "amqp-consume",
};

static struct {
    dialect_t dialect;
    const char *host, *queue;
    int port, connections, in_flight;
    size_t body_bytes;
    uint64_t items; /* 0: until the time is up */
    double seconds; /* 0: until the items are done */
    double time_limit; /* a run that takes longer has failed */
    uint32_t seed;
} want = {
    .dialect = DIALECTS, .host = "127.0.0.1", .queue = "bench", .connections = 1, .in_flight = 1,
    .body_bytes = 100, .seed = 1,
};

/* ---- one run -------------------------------------------------------------------------------- */

typedef enum {
    STORE, OPEN, CLOSE_OPEN, CLOSE, ABORT, HAND_OFF, GET, MOVE, REMOVE, RESERVE, DELETE
} request_kind;

typedef struct {
    request_kind kind;
    uint64_t begun_ns; /* when the item's first request was sent */
} request;

typedef struct {
    int fd, number;
    bool opened;      /* memcache-consume: an item is open, or the first open was asked for;
                         amqp-consume: items come */
    bool finished;    /* nothing more will be asked */
    bool wants_write; /* the socket was full; epoll watches for room */
    request *ring;    /* asked and unanswered, oldest first */
    unsigned head, waiting;
    char *in, *out;
    size_t in_from, in_to, out_from, out_to;
    char *fetch, *forget; /* redis: LMOVE whole, LREM up to the body; nats: NEXT, where ACKs answer */
    size_t fetch_bytes, forget_bytes;
    uint64_t tag;     /* amqp-put: of the last item */
} connection;

static connection *connections;
static size_t in_room, out_room;
static int epoll_fd, running;
static bool issuing = true;
static uint64_t issued, done, requests, empties, wire_bytes, began_ns, last_reply_ns;
static char *template_; /* a whole storing request, its body's header to be filled in */
static size_t template_bytes, template_header, template_name;
static char *filler; /* a body's expected bytes; the header's are filled in per item */
static uint8_t *seen; /* one bit per number consumed */
static char open_text[128], close_open_text[128], close_text[128], abort_text[128];
static char open_2_text[128], hand_text[2][128]; /* from the second queue of a chain; into the next */
static char get_text[128], va_text[32];
static size_t va_bytes;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- latencies: log-linear buckets, 1/128 wide ------------------------------------------------ */

static uint64_t buckets[58 * 128];

static unsigned bucket_of(uint64_t ns) {
    if (ns < 128) return (unsigned)ns;
    unsigned e = 63 - (unsigned)__builtin_clzll(ns);
    return (e - 6) * 128 + (unsigned)((ns >> (e - 7)) - 128);
}

static double bucket_middle_ns(unsigned b) {
    if (b < 128) return b;
    unsigned shift = b / 128 - 1;
    return ((double)(128 + b % 128) + 0.5) * (double)(1ull << shift);
}

static double percentile_us(double share) {
    uint64_t need = (uint64_t)(share * (double)done), sum = 0;
    for (unsigned b = 0; b < sizeof buckets / sizeof *buckets; b++)
        if ((sum += buckets[b]) > need) return bucket_middle_ns(b) / 1e3;
    return 0;
}

/* ---- endings ---------------------------------------------------------------------------------- */

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double cpu_before;

static void print_result(int errors) {
    double seconds = began_ns && last_reply_ns > began_ns
        ? (double)(last_reply_ns - began_ns) / 1e9 : 0;
    printf("{\"dialect\": \"%s\", \"ops\": %llu, \"requests\": %llu, \"seconds\": %.6f, "
           "\"ops_per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"bytes\": %llu, "
           "\"empty\": %llu, \"generator_busy\": %.3f, \"errors\": %d}\n",
           DIALECT_NAMES[want.dialect], (unsigned long long)done, (unsigned long long)requests,
           seconds, seconds > 0 ? (double)done / seconds : 0, percentile_us(0.50),
           percentile_us(0.99), (unsigned long long)wire_bytes, (unsigned long long)empties,
           seconds > 0 ? (cpu_seconds() - cpu_before) / seconds : 0, errors);
    fflush(stdout);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *text, ...) {
    va_list args;
    va_start(args, text);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, text, args);
    fputc('\n', stderr);
    exit(2);
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *text, ...) {
    va_list args;
    va_start(args, text);
    fprintf(stderr, "loadgen: %s: ", DIALECT_NAMES[want.dialect]);
    vfprintf(stderr, text, args);
    fprintf(stderr, " (after %llu operations)\n", (unsigned long long)done);
    print_result(1);
    exit(1);
}

__attribute__((noreturn)) static void unexpected(const char *reply, size_t n, const char *wanted) {
    char shown[201];
    size_t k = 0;
    for (; k < n && k < sizeof shown - 1 && reply[k] != '\r' && reply[k] != '\n'; k++)
        shown[k] = reply[k] >= ' ' && reply[k] <= '~' ? reply[k] : '?';
    shown[k] = 0;
    fail("the server answered \"%s\" instead of %s", shown, wanted);
}

/* ---- bodies ------------------------------------------------------------------------------------ */

static void digits(char *at, unsigned width, uint64_t value) {
    while (width--) {
        at[width] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void make_filler(void) {
    uint32_t x = want.seed * 2654435761u + 1;
    filler = malloc(want.body_bytes + 1);
    snprintf(filler, HEADER + 1, "%08x %05d %010d ", want.seed, 0, 0);
    for (size_t i = HEADER; i < want.body_bytes; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        filler[i] = (char)('a' + x % 26);
    }
    filler[want.body_bytes] = 0;
}

static void check_body(const char *body, size_t n) {
    if (n != want.body_bytes)
        fail("a body of %zu bytes came back instead of %zu", n, want.body_bytes);
    uint64_t number = 0;
    for (int i = 15; i < 25; i++) number = number * 10 + (uint64_t)(body[i] - '0');
    if (memcmp(body, filler, 9) != 0 || memcmp(body + HEADER, filler + HEADER, n - HEADER) != 0 ||
        number >= MAX_ITEMS)
        fail("a body came back that was never stored in this run: \"%.25s\"", body);
    if (want.dialect == MEMCACHE_GET || want.dialect == MEMCACHE_RETURN ||
        want.dialect == MEMCACHE_HANDOFF)
        return;
    if (seen[number / 8] & 1u << number % 8)
        fail("item %llu was delivered twice", (unsigned long long)number);
    seen[number / 8] |= (uint8_t)(1u << number % 8);
}

/* ---- asking ------------------------------------------------------------------------------------ */

static void put(connection *c, const char *bytes, size_t n) {
    if (c->out_to + n > out_room) {
        memmove(c->out, c->out + c->out_from, c->out_to - c->out_from);
        c->out_to -= c->out_from;
        c->out_from = 0;
        if (c->out_to + n > out_room) fail("the output buffer is too small for %zu bytes", n);
    }
    memcpy(c->out + c->out_to, bytes, n);
    c->out_to += n;
}

static void ask(connection *c, request_kind kind, uint64_t begun_ns) {
    unsigned slots = (unsigned)want.in_flight + 1;
    c->ring[(c->head + c->waiting++) % slots] = (request){kind, begun_ns};
    requests++;
}

/* What opens an item on this connection. Along a chain every other one serves its second queue. */
static const char *opening(const connection *c) {
    return want.dialect == MEMCACHE_HANDOFF && c->number % 2 ? open_2_text : open_text;
}

/* Begin one item on this connection, if any is left to be begun. */
static bool begin_item(connection *c, uint64_t now) {
    if (!issuing || (want.items && issued >= want.items) || issued >= MAX_ITEMS) return false;
    uint64_t number = issued++;
    switch (want.dialect) {
    case MEMCACHE_NAMED:
        digits(template_ + template_name, 10, number);
        /* fall through */
    case MEMCACHE_SPREAD:
        if (want.dialect == MEMCACHE_SPREAD)
            digits(template_ + template_name, 5, (uint64_t)c->number);
        /* fall through */
    case NATS_PUT:
        if (want.dialect == NATS_PUT)
            digits(template_ + template_name, 5, (uint64_t)c->number);
        /* fall through */
    case MEMCACHE_SET:
    case REDIS_PUSH:
    case BEANSTALK_PUT:
        digits(template_ + template_header + 9, 5, (uint64_t)c->number);
        digits(template_ + template_header + 15, 10, number);
        put(c, template_, template_bytes);
        ask(c, STORE, now);
        break;
    case MEMCACHE_CONSUME:
        put(c, c->opened ? close_open_text : open_text,
            strlen(c->opened ? close_open_text : open_text));
        ask(c, c->opened ? CLOSE_OPEN : OPEN, now);
        c->opened = true;
        break;
    case MEMCACHE_RETURN:
        put(c, open_text, strlen(open_text));
        ask(c, OPEN, now);
        break;
    case MEMCACHE_HANDOFF:
        put(c, opening(c), strlen(opening(c)));
        ask(c, OPEN, now);
        break;
    case MEMCACHE_GET:
        put(c, get_text, strlen(get_text));
        ask(c, GET, now);
        break;
    case AMQP_PUT:
        digits(template_ + template_header + 9, 5, (uint64_t)c->number);
        digits(template_ + template_header + 15, 10, number);
        put(c, template_, template_bytes);
        ask(c, STORE, now);
        c->tag++;
        break;
    case AMQP_CONSUME:
        if (!c->opened) put(c, c->fetch, c->fetch_bytes);
        c->opened = true;
        ask(c, MOVE, now);
        break;
    case REDIS_CONSUME:
    case NATS_CONSUME:
        put(c, c->fetch, c->fetch_bytes);
        ask(c, MOVE, now);
        break;
    default:
        put(c, "reserve-with-timeout 0\r\n", 24);
        ask(c, RESERVE, now);
    }
    return true;
}

static void finish(connection *c) {
    c->finished = true;
    running--;
}

/* Nothing is under way here and nothing can begin: confirm what is still open, then rest. */
static void rest(connection *c, uint64_t now) {
    if (want.dialect == MEMCACHE_CONSUME && c->opened) {
        put(c, close_text, strlen(close_text));
        ask(c, CLOSE, now);
        c->opened = false;
    } else
        finish(c);
}

/* ---- answers ------------------------------------------------------------------------------------ */

/* The length of a reply made of a line, a body and a tail; 0 when it is not all here. */
static size_t block(size_t line, size_t bytes, const char *p, size_t n, const char *tail) {
    size_t tail_bytes = strlen(tail), whole = line + bytes + tail_bytes;
    if (bytes > MAX_BODY) unexpected(p, n, "a body of a sensible size");
    if (n < whole) return 0;
    if (memcmp(p + line + bytes, tail, tail_bytes) != 0)
        unexpected(p + line + bytes, tail_bytes, "the end of a body");
    return whole;
}

static bool starts(const char *p, size_t n, const char *word) {
    size_t k = strlen(word);
    return n >= k && memcmp(p, word, k) == 0;
}

static size_t number_at(const char *p, const char *end) {
    size_t value = 0;
    while (p < end && *p >= '0' && *p <= '9' && value < SIZE_MAX / 16)
        value = value * 10 + (size_t)(*p++ - '0');
    return value;
}

/* Nothing was there. Nobody stores while we consume, so there will be nothing more. */
static void item_missing(void) {
    empties++;
    issuing = false;
}

static void item_done(const request *r, uint64_t now) {
    done++;
    buckets[bucket_of(now - r->begun_ns)]++;
}

/* VALUE <key> 0 <bytes>, body, END: the key must be the one that was asked for, as it was asked. */
static size_t value_reply(const char *asked, const char *p, size_t line, size_t n, size_t *body) {
    size_t key = strlen(asked) - 6; /* without "get " and CRLF */
    if (!starts(p, line, "VALUE ") || line < key + 10 || memcmp(p + 6, asked + 4, key) != 0 ||
        memcmp(p + 6 + key, " 0 ", 3) != 0)
        unexpected(p, line, "VALUE with the key that was asked for and flags 0");
    size_t bytes = number_at(p + 9 + key, p + line);
    *body = bytes;
    return block(line, bytes, p, n, "\r\nEND\r\n");
}

/* The next word of a line, and how long it is; 0 at its end. */
static size_t word_at(const char **p, const char *eol) {
    while (*p < eol && **p == ' ') ++*p;
    const char *end = *p;
    while (end < eol && *end != ' ' && *end != '\r') end++;
    return (size_t)(end - *p);
}

/* What a server of NATS sends by itself: no answer. */
static bool is_unasked(connection *c, const char *p, size_t line) {
    if (starts(p, line, "PING")) put(c, "PONG\r\n", 6);
    return starts(p, line, "PING") || starts(p, line, "PONG") || starts(p, line, "INFO ");
}

/* [H]MSG <subject> <sid> [reply] [bytes of headers] <bytes>, and so many bytes. */
static size_t nats_answer(connection *c, const char *p, size_t n, uint64_t now) {
    const char *eol = memchr(p, '\n', n), *words[6], *at = p, *reply;
    size_t sizes[6], count = 0, line, bytes, used;
    if (!eol) return 0;
    line = (size_t)(eol - p) + 1;
    if (is_unasked(c, p, line)) return line;
    bool headed = starts(p, line, "HMSG ");
    if (!headed && !starts(p, line, "MSG ")) unexpected(p, line, "MSG");
    if (!c->waiting) unexpected(p, line, "silence, as nothing was asked");
    for (; count < 6 && (sizes[count] = word_at(&at, eol)); at += sizes[count++]) words[count] = at;
    if (count < 4) unexpected(p, line, "MSG");
    bytes = number_at(words[count - 1], eol);
    used = block(line, bytes, p, n, "\r\n");
    if (!used) return 0;
    request r = c->ring[c->head];
    bool acks = false;
    if (r.kind == MOVE && headed) {
        if (!memmem(p + line, bytes, " 404", 4)) unexpected(p + line, bytes, "an item, or 404");
        item_missing();
    } else if (r.kind == MOVE) {
        reply = words[3];
        if (count != 5) unexpected(p, line, "an item with a reply");
        check_body(p + line, bytes);
        put(c, "PUB ", 4);
        put(c, reply, sizes[3]);
        put(c, c->forget, c->forget_bytes);
        acks = true;
    } else {
        if (r.kind == STORE && !memmem(p + line, bytes, "\"seq\":", 6))
            unexpected(p + line, bytes, "its number in the stream");
        if (r.kind == REMOVE && bytes) unexpected(p + line, bytes, "nothing but that it is kept");
        item_done(&r, now);
    }
    c->head = (c->head + 1) % ((unsigned)want.in_flight + 1);
    c->waiting--;
    last_reply_ns = now;
    if (acks)
        ask(c, REMOVE, r.begun_ns);
    else if (!begin_item(c, now) && !c->waiting)
        rest(c, now);
    return used;
}

/* ---- AMQP 0-9-1: frames of methods, which are a class and a number in it ------------------------ */

typedef enum {
    START = 10 << 16 | 10, START_OK, TUNE = 10 << 16 | 30, TUNE_OK, OPEN_HOST = 10 << 16 | 40,
    OPEN_HOST_OK, CLOSE_ALL = 10 << 16 | 50, CLOSE_ALL_OK, OPEN_CHANNEL = 20 << 16 | 10,
    OPEN_CHANNEL_OK, DECLARE = 50 << 16 | 10, DECLARE_OK, QOS = 60 << 16 | 10, QOS_OK, CONSUME = 60 << 16 | 20, PUBLISH = 60 << 16 | 40,
    DELIVER = 60 << 16 | 60, ACK = 60 << 16 | 80, CONFIRM = 85 << 16 | 10, CONFIRM_OK
} method_t;

static uint64_t big_at(const char *p, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | (unsigned char)*p++;
    return value;
}

static char *put_big(char *p, int bytes, uint64_t value) {
    for (int i = bytes; i--; value >>= 8) p[i] = (char)value;
    return p + bytes;
}

/* Append a frame; says where it ends. */
static char *put_frame(char *p, int type, int channel, const char *bytes, size_t n) {
    p = put_big(put_big(put_big(p, 1, (uint64_t)type), 2, (uint64_t)channel), 4, n);
    memcpy(p, bytes, n);
    return put_big(p + n, 1, FRAME_END);
}

static char *put_method(char *p, method_t method, const char *bytes, size_t n) {
    char all[256];
    memcpy(put_big(all, 4, method), bytes, n);
    return put_frame(p, METHOD_FRAME, method >> 16 != 10, all, n + 4);
}

/* The bytes of the frame at p; 0 when it is not all here. */
static size_t frame_at(const char *p, size_t n) {
    size_t size = n < FRAME_HEAD ? 0 : big_at(p + 3, 4);
    if (size > MAX_BODY) unexpected(p, n, "a frame of a sensible size");
    if (n < FRAME_HEAD || n < size + FRAME_ALL) return 0;
    if ((unsigned char)p[size + FRAME_HEAD] != FRAME_END) unexpected(p, n, "the end of a frame");
    return size + FRAME_ALL;
}

static void want_method(const char *p, size_t frame, method_t method, const char *wanted) {
    if (*p != METHOD_FRAME || frame < FRAME_ALL + 4 || big_at(p + FRAME_HEAD, 4) != method)
        unexpected(p, frame, wanted);
}

/* An item: a method, a header and, as it is short, one body. */
static size_t amqp_item(connection *c, const char *p, size_t n, size_t method) {
    size_t header = frame_at(p + method, n - method), body, tag;
    char text[64];
    if (!header || !(body = frame_at(p + method + header, n - method - header))) return 0;
    tag = FRAME_HEAD + 4 + 1 + (unsigned char)p[FRAME_HEAD + 4]; /* behind the consumer's name */
    if (p[method] != HEADER_FRAME || p[method + header] != BODY_FRAME || tag + 8 > method)
        unexpected(p + method, header, "the header of an item, and its body");
    check_body(p + method + header + FRAME_HEAD, body - FRAME_ALL);
    memcpy(text, p + tag, 8);
    text[8] = 0; /* this one alone */
    char acks[64];
    put(c, acks, (size_t)(put_method(acks, ACK, text, 9) - acks));
    requests++;
    return method + header + body;
}

static size_t amqp_answer(connection *c, const char *p, size_t n, uint64_t now) {
    size_t used = frame_at(p, n);
    if (!used) return 0;
    if (want.dialect == AMQP_PUT) {
        want_method(p, used, ACK, "a confirm");
        if (!c->waiting || big_at(p + FRAME_HEAD + 4, 8) != c->tag)
            unexpected(p, used, "the confirm of the last item");
    } else {
        want_method(p, used, DELIVER, "an item");
        if (!(used = amqp_item(c, p, n, used))) return 0;
    }
    /* Who has asked for the last item may get none, as it went to another connection. */
    request r = c->waiting ? c->ring[c->head] : (request){MOVE, now};
    if (c->waiting) {
        c->head = (c->head + 1) % ((unsigned)want.in_flight + 1);
        c->waiting--;
    }
    item_done(&r, now);
    last_reply_ns = now;
    if (begin_item(c, now)) return used;
    if (want.dialect == AMQP_PUT)
        rest(c, now);
    else if (done == want.items)
        running = 0;
    return used;
}

/* Take one whole reply from p; says how many bytes it was, 0 when more must come first. */
static size_t answer(connection *c, const char *p, size_t n, uint64_t now) {
    if (want.dialect == AMQP_PUT || want.dialect == AMQP_CONSUME) return amqp_answer(c, p, n, now);
    if (want.dialect == NATS_PUT || want.dialect == NATS_CONSUME) return nats_answer(c, p, n, now);
    const char *eol = memchr(p, '\n', n);
    if (!eol) return 0;
    if (!c->waiting) unexpected(p, n, "silence, as nothing was asked");
    size_t line = (size_t)(eol - p) + 1, used = line, bytes = 0;
    request r = c->ring[c->head];
    bool next_step = false;

    switch (r.kind) {
    case STORE:
        if (want.dialect <= MEMCACHE_NAMED && !(line == 8 && starts(p, line, "STORED\r\n")))
            unexpected(p, line, "STORED");
        if (want.dialect == REDIS_PUSH && *p != ':') unexpected(p, line, "a list's length");
        if (want.dialect == BEANSTALK_PUT && !starts(p, line, "INSERTED "))
            unexpected(p, line, "INSERTED");
        item_done(&r, now);
        break;
    case OPEN:
    case CLOSE_OPEN:
        if (starts(p, line, "END\r\n")) {
            item_missing();
            c->opened = false;
            break;
        }
        used = value_reply(r.kind == OPEN ? opening(c) : close_open_text, p, line, n, &bytes);
        if (!used) return 0;
        check_body(p + line, bytes);
        if (want.dialect == MEMCACHE_RETURN) {
            put(c, abort_text, strlen(abort_text));
            next_step = true;
            break;
        }
        if (want.dialect == MEMCACHE_HANDOFF) {
            const char *text = hand_text[c->number % 2];
            put(c, text, strlen(text));
            put(c, p + line, bytes + 2);
            next_step = true;
            break;
        }
        c->opened = true;
        item_done(&r, now);
        break;
    case CLOSE:
        if (!starts(p, line, "END\r\n")) unexpected(p, line, "END");
        break;
    case ABORT:
        if (!starts(p, line, "END\r\n")) unexpected(p, line, "END");
        item_done(&r, now);
        break;
    case HAND_OFF:
        if (!(line == 8 && starts(p, line, "STORED\r\n"))) unexpected(p, line, "STORED");
        item_done(&r, now);
        break;
    case GET:
        if (line != va_bytes || memcmp(p, va_text, line) != 0) unexpected(p, line, "VA");
        bytes = want.body_bytes;
        used = block(line, bytes, p, n, "\r\n");
        if (!used) return 0;
        check_body(p + line, bytes);
        item_done(&r, now);
        break;
    case MOVE:
        if (starts(p, line, "$-1\r\n")) {
            item_missing();
            break;
        }
        if (*p != '$') unexpected(p, line, "an item");
        bytes = number_at(p + 1, eol);
        used = block(line, bytes, p, n, "\r\n");
        if (!used) return 0;
        check_body(p + line, bytes);
        put(c, c->forget, c->forget_bytes);
        put(c, p + line, bytes + 2);
        next_step = true;
        break;
    case REMOVE:
        if (!starts(p, line, ":1\r\n")) unexpected(p, line, "one item removed");
        item_done(&r, now);
        break;
    case RESERVE: {
        if (starts(p, line, "TIMED_OUT\r\n")) {
            item_missing();
            break;
        }
        const char *id = p + 9, *space = NULL;
        if (!starts(p, line, "RESERVED ") || !(space = memchr(id, ' ', line - 9)))
            unexpected(p, line, "RESERVED");
        bytes = number_at(space + 1, eol);
        used = block(line, bytes, p, n, "\r\n");
        if (!used) return 0;
        check_body(p + line, bytes);
        put(c, "delete ", 7);
        put(c, id, (size_t)(space - id));
        put(c, "\r\n", 2);
        next_step = true;
        break;
    }
    case DELETE:
        if (!starts(p, line, "DELETED\r\n")) unexpected(p, line, "DELETED");
        item_done(&r, now);
    }

    c->head = (c->head + 1) % ((unsigned)want.in_flight + 1);
    c->waiting--;
    last_reply_ns = now;
    bool opens_next = next_step && want.dialect == MEMCACHE_HANDOFF;
    if (next_step)
        ask(c, r.kind == MOVE ? REMOVE : r.kind == RESERVE ? DELETE
                : want.dialect == MEMCACHE_HANDOFF ? HAND_OFF : ABORT, r.begun_ns);
    else if (r.kind == CLOSE)
        finish(c);
    else if (r.kind == HAND_OFF && c->waiting)
        return used; /* the next one was opened in the same trip */
    else if (!begin_item(c, now) && !c->waiting)
        rest(c, now);
    if (opens_next) begin_item(c, now);
    return used;
}

/* ---- the socket --------------------------------------------------------------------------------- */

static void watch_for_room(connection *c, bool room) {
    if (c->wants_write == room) return;
    struct epoll_event e = {.events = EPOLLIN | (room ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    c->wants_write = room;
}

static void send_all(connection *c) {
    while (c->out_from < c->out_to) {
        ssize_t k = send(c->fd, c->out + c->out_from, c->out_to - c->out_from, MSG_NOSIGNAL);
        if (k < 0 && (errno == EAGAIN || errno == EINTR)) {
            watch_for_room(c, true);
            return;
        }
        if (k < 0) fail("connection %d: %s", c->number, strerror(errno));
        wire_bytes += (uint64_t)k;
        c->out_from += (size_t)k;
    }
    c->out_from = c->out_to = 0;
    watch_for_room(c, false);
}

static void read_some(connection *c) {
    if (c->in_from) {
        memmove(c->in, c->in + c->in_from, c->in_to - c->in_from);
        c->in_to -= c->in_from;
        c->in_from = 0;
    }
    if (c->in_to == in_room) unexpected(c->in, in_room, "a reply that fits");
    ssize_t k = recv(c->fd, c->in + c->in_to, in_room - c->in_to, 0);
    if (k < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (k < 0) fail("connection %d: %s", c->number, strerror(errno));
    if (k == 0 && c->in_to) unexpected(c->in, c->in_to, "a whole reply before closing");
    if (k == 0) fail("the server closed connection %d", c->number);
    wire_bytes += (uint64_t)k;
    c->in_to += (size_t)k;

    uint64_t now = now_ns();
    size_t used;
    while (c->in_from < c->in_to &&
           (used = answer(c, c->in + c->in_from, c->in_to - c->in_from, now)))
        c->in_from += used;
    if (c->in_from == c->in_to) c->in_from = c->in_to = 0;
}

/* Before the clock starts: one request, one reply line with this beginning, blocking. */
static void say(connection *c, const char *text, const char *wanted) {
    char reply[256];
    size_t n = 0, length = strlen(text);
    if (send(c->fd, text, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail("connection %d: %s", c->number, strerror(errno));
    while (n < sizeof reply && !memchr(reply, '\n', n)) {
        ssize_t k = recv(c->fd, reply + n, sizeof reply - n, 0);
        if (k <= 0) fail("connection %d closed before the start", c->number);
        n += (size_t)k;
    }
    if (!starts(reply, n, wanted)) unexpected(reply, n, wanted);
}

static char *redis_text(size_t *bytes, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) die("out of memory");
    *bytes = (size_t)n;
    return text;
}

/* One line, however long: what a server of NATS says of itself. */
static void hear_line(const connection *c) {
    char byte = 0;
    for (size_t n = 0; byte != '\n'; n++)
        if (n == MAX_INFO || recv(c->fd, &byte, 1, 0) != 1)
            fail("connection %d closed before the start", c->number);
}

static void greet_nats(connection *c) {
    const char *q = want.queue;
    char inbox[64], text[512];
    hear_line(c);
    snprintf(inbox, sizeof inbox, "_INBOX.%08x.%05d", want.seed, c->number);
    snprintf(text, sizeof text,
             "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"name\":\"loadgen\"}\r\n"
             "SUB %s 1\r\nPING\r\n", inbox);
    say(c, text, "PONG");
    c->fetch = redis_text(&c->fetch_bytes,
        "PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s %s 26\r\n{\"batch\":1,\"no_wait\":true}\r\n", q, q, inbox);
    c->forget = redis_text(&c->forget_bytes, " %s 4\r\n+ACK\r\n", inbox);
}

/* Send this, and wait for that method, blocking. */
static void say_amqp(connection *c, const char *bytes, size_t n, method_t method) {
    char reply[4096];
    size_t frame = 0, got = 0, wanted = FRAME_HEAD;
    if (send(c->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        fail("connection %d: %s", c->number, strerror(errno));
    while (got < wanted) {
        ssize_t k = recv(c->fd, reply + got, wanted - got, 0);
        if (k <= 0) fail("connection %d closed before the start", c->number);
        got += (size_t)k;
        if (got == FRAME_HEAD) wanted = FRAME_ALL + (size_t)big_at(reply + 3, 4);
        if (wanted > sizeof reply) unexpected(reply, got, "a short frame");
    }
    frame = frame_at(reply, got);
    want_method(reply, frame, method, "the next step of the greeting");
}

static void greet_amqp(connection *c) {
    static const char start[] = "\0\0\0\0\5PLAIN\0\0\0\14\0guest\0guest\5en_US";
    static const char tune[] = "\0\1\0\2\0\0\0\0"; /* one channel; 128 KiB; no heartbeat */
    static const char kind[] = "\0\0\0\71\14x-queue-typeS\0\0\0\6quorum"
                               "\33x-quorum-initial-group-sizeI\0\0\0\3";
    static const char one[] = "\0\0\0\0\0\1"; /* prefetch one */
    char text[256], *end = text;
    size_t q = strlen(want.queue);
    say_amqp(c, "AMQP\0\0\t\1", 8, START);
    say_amqp(c, text, (size_t)(put_method(text, START_OK, start, sizeof start - 1) - text), TUNE);
    end = put_method(text, TUNE_OK, tune, sizeof tune - 1);
    say_amqp(c, text, (size_t)(put_method(end, OPEN_HOST, "\1/\0", 4) - text), OPEN_HOST_OK);
    say_amqp(c, text, (size_t)(put_method(text, OPEN_CHANNEL, "", 1) - text), OPEN_CHANNEL_OK);
    if (want.dialect == AMQP_PUT) {
        char queue[192] = {0}; /* a number, its name, that it is durable, a table */
        queue[2] = (char)q;
        memcpy(queue + 3, want.queue, q);
        queue[3 + q] = 2;
        memcpy(queue + 4 + q, kind, sizeof kind - 1);
        say_amqp(c, text, (size_t)(put_method(text, DECLARE, queue, q + 3 + sizeof kind) - text),
                 DECLARE_OK);
        say_amqp(c, text, (size_t)(put_method(text, CONFIRM, "", 1) - text), CONFIRM_OK);
        return;
    }
    say_amqp(c, text, (size_t)(put_method(text, QOS, one, sizeof one) - text), QOS_OK);
    char asked[128] = {0}; /* a number, the queue, a name to be made up, no-wait, no arguments */
    asked[2] = (char)q;
    memcpy(asked + 3, want.queue, q);
    asked[3 + q] = 1;
    asked[4 + q] = 'c';
    asked[5 + q] = 8;
    c->fetch = malloc(256);
    if (!c->fetch) die("out of memory");
    c->fetch_bytes = (size_t)(put_method(c->fetch, CONSUME, asked, q + 10) - c->fetch);
}

/* Hang up in order, so that what was confirmed is kept; an item that still comes is not ours. */
static void part_amqp(connection *c) {
    static const char why[] = "\0\310\0\0\0\0"; /* 200, and no text or method */
    char text[64];
    put(c, text, (size_t)(put_method(text, CLOSE_ALL, why, sizeof why) - text));
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) & ~O_NONBLOCK);
    send_all(c);
    for (;;) {
        size_t n = c->in_to - c->in_from, frame = frame_at(c->in + c->in_from, n);
        const char *p = c->in + c->in_from;
        if (frame >= FRAME_ALL + 4 && *p == METHOD_FRAME && big_at(p + FRAME_HEAD, 4) == CLOSE_ALL_OK)
            return;
        c->in_from += frame;
        if (frame) continue;
        memmove(c->in, c->in + c->in_from, n);
        c->in_from = 0;
        c->in_to = n;
        ssize_t k = recv(c->fd, c->in + n, in_room - n, 0);
        if (k <= 0) fail("connection %d closed before its end", c->number);
        c->in_to += (size_t)k;
    }
}

static void open_connection(connection *c, int number) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)want.port)};
    inet_pton(AF_INET, want.host, &to.sin_addr);
    c->number = number;
    c->ring = calloc((size_t)want.in_flight + 1, sizeof *c->ring);
    c->in = malloc(in_room);
    c->out = malloc(out_room);
    if (!c->ring || !c->in || !c->out) die("out of memory");

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = CONNECT_TIMEOUT_S};
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0)
        fail("cannot connect to %s:%d: %s", want.host, want.port, strerror(errno));

    if (want.dialect == MEMCACHE_GET && number == 0) {
        say(c, template_, "STORED");
    } else if (want.dialect == REDIS_CONSUME) {
        /* A processing list per connection, and a search from the end where the oldest is. */
        const char *q = want.queue;
        char mine[128];
        int k = snprintf(mine, sizeof mine, "%s:processing:%d", q, number);
        c->fetch = redis_text(&c->fetch_bytes,
            "*5\r\n$5\r\nLMOVE\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n",
            strlen(q), q, k, mine);
        c->forget = redis_text(&c->forget_bytes,
            "*4\r\n$4\r\nLREM\r\n$%d\r\n%s\r\n$2\r\n-1\r\n$%zu\r\n", k, mine, want.body_bytes);
    } else if (want.dialect == BEANSTALK_PUT || want.dialect == BEANSTALK_CONSUME) {
        char line[128];
        snprintf(line, sizeof line, "%s %s\r\n",
                 want.dialect == BEANSTALK_PUT ? "use" : "watch", want.queue);
        say(c, line, want.dialect == BEANSTALK_PUT ? "USING" : "WATCHING");
        if (want.dialect == BEANSTALK_CONSUME) say(c, "ignore default\r\n", "WATCHING");
    } else if (want.dialect == NATS_PUT || want.dialect == NATS_CONSUME)
        greet_nats(c);
    else if (want.dialect == AMQP_PUT || want.dialect == AMQP_CONSUME)
        greet_amqp(c);

    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e) != 0) die("epoll: %s", strerror(errno));
}

/* A publishing: a method, a header that says that the item is to be kept, and the body. */
static void make_amqp_template(void) {
    char asked[128] = {0}, header[32], *end;
    size_t q = strlen(want.queue), n = want.body_bytes;
    template_ = malloc(n + REQUEST_ROOM);
    if (!template_) die("out of memory");
    asked[3] = (char)q; /* behind a number and the name of the exchange, which is none */
    memcpy(asked + 4, want.queue, q);
    end = put_method(template_, PUBLISH, asked, q + 5);
    put_big(put_big(put_big(put_big(header, 4, 60 << 16), 8, n), 2, 1 << 12), 1, 2);
    end = put_frame(end, HEADER_FRAME, 1, header, 15);
    end = put_frame(end, BODY_FRAME, 1, filler, n);
    template_bytes = (size_t)(end - template_);
    template_header = template_bytes - 1 - n;
}

static void make_texts(void) {
    const char *q = want.queue;
    size_t n = want.body_bytes;
    make_filler();
    if (want.dialect == REDIS_PUSH)
        template_ = redis_text(&template_bytes,
            "*3\r\n$5\r\nLPUSH\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(q), q, n, filler);
    else if (want.dialect == BEANSTALK_PUT)
        template_ = redis_text(&template_bytes, "put 0 0 3600 %zu\r\n%s\r\n", n, filler);
    else if (want.dialect == NATS_PUT) {
        template_ = redis_text(&template_bytes, "PUB %s _INBOX.%08x.%05d %zu\r\n%s\r\n", q, want.seed, 0,
                               n, filler);
        template_name = 4 + strlen(q) + 1 + 16;
    } else if (want.dialect == MEMCACHE_NAMED) {
        template_ = redis_text(&template_bytes, "set %s%08x-%010d 0 0 %zu\r\n%s\r\n", q, want.seed, 0,
                               n, filler);
        template_name = 4 + strlen(q) + 9;
    } else if (want.dialect == MEMCACHE_SPREAD) {
        template_ = redis_text(&template_bytes, "set %s%05d 0 0 %zu\r\n%s\r\n", q, 0, n, filler);
        template_name = 4 + strlen(q);
    } else
        template_ = redis_text(&template_bytes, "set %s 0 0 %zu\r\n%s\r\n", q, n, filler);
    template_header = template_bytes - 2 - n;
    if (want.dialect == AMQP_PUT) make_amqp_template();
    snprintf(open_text, sizeof open_text, "get %s/open\r\n", q);
    snprintf(close_open_text, sizeof close_open_text, "get %s/close/open\r\n", q);
    snprintf(close_text, sizeof close_text, "get %s/close\r\n", q);
    snprintf(abort_text, sizeof abort_text, "get %s/abort\r\n", q);
    snprintf(open_2_text, sizeof open_2_text, "get %s-2/open\r\n", q);
    for (int i = 0; i < 2; i++)
        snprintf(hand_text[i], sizeof hand_text[i], "set %s-%d/confirm 0 0 %zu\r\n", q, i + 2, n);
    snprintf(get_text, sizeof get_text, "mg %s v\r\n", q);
    va_bytes = (size_t)snprintf(va_text, sizeof va_text, "VA %zu\r\n", n);
}

/* ---- the story of a run ------------------------------------------------------------------------- */

static void run(void) {
    struct epoll_event events[EVENTS];
    uint64_t stop_ns, limit_ns;
    cpu_before = cpu_seconds();
    began_ns = last_reply_ns = now_ns();
    stop_ns = want.seconds > 0 ? began_ns + (uint64_t)(want.seconds * 1e9) : UINT64_MAX;
    limit_ns = began_ns + (uint64_t)(want.time_limit * 1e9);

    for (int i = 0; i < want.connections; i++) {
        connection *c = &connections[i];
        uint64_t now = now_ns();
        for (int k = 0; k < want.in_flight && begin_item(c, now); k++) {}
        if (!c->waiting) finish(c);
        send_all(c);
    }
    while (running) {
        int n = epoll_wait(epoll_fd, events, EVENTS, TICK_MS);
        if (n < 0 && errno != EINTR) die("epoll: %s", strerror(errno));
        uint64_t now = now_ns();
        if (now >= stop_ns) issuing = false;
        if (now >= limit_ns) fail("not finished within %.0f seconds", want.time_limit);
        for (int i = 0; i < n; i++) {
            connection *c = events[i].data.ptr;
            if (c->finished) {
                /* what comes now is the server's hang-up or a reply too many: either is a fault */
                read_some(c);
                continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_some(c);
            if (c->out_to) send_all(c);
        }
    }
}

static double argument(const char *name, const char *text, double low, double high) {
    char *end;
    double value = text ? strtod(text, &end) : 0;
    if (!text || !*text || *end || !(value >= low && value <= high))
        die("%s takes a number from %g to %g, not \"%s\"", name, low, high, text ? text : "");
    return value;
}

static void read_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value) die("%s needs a value", name);
        if (!strcmp(name, "--dialect")) {
            want.dialect = 0;
            while (want.dialect < DIALECTS && strcmp(value, DIALECT_NAMES[want.dialect]) != 0)
                want.dialect++;
            if (want.dialect == DIALECTS) die("unknown dialect \"%s\"", value);
        } else if (!strcmp(name, "--host")) want.host = value;
        else if (!strcmp(name, "--queue")) want.queue = value;
        else if (!strcmp(name, "--port")) want.port = (int)argument(name, value, 1, 65535);
        else if (!strcmp(name, "--connections"))
            want.connections = (int)argument(name, value, 1, MAX_CONNECTIONS);
        else if (!strcmp(name, "--in-flight"))
            want.in_flight = (int)argument(name, value, 1, MAX_IN_FLIGHT);
        else if (!strcmp(name, "--body-bytes"))
            want.body_bytes = (size_t)argument(name, value, HEADER, MAX_BODY);
        else if (!strcmp(name, "--ops")) want.items = (uint64_t)argument(name, value, 1, MAX_ITEMS);
        else if (!strcmp(name, "--seconds")) want.seconds = argument(name, value, 0.001, MAX_SECONDS);
        else if (!strcmp(name, "--time-limit"))
            want.time_limit = argument(name, value, 0.001, MAX_SECONDS);
        else if (!strcmp(name, "--seed")) want.seed = (uint32_t)argument(name, value, 0, UINT32_MAX);
        else die("unknown option %s", name);
    }
    if (want.time_limit <= 0)
        want.time_limit = want.seconds > 0 ? want.seconds + GRACE_S : TIME_LIMIT_S;
    struct in_addr address;
    bool is_amqp = want.dialect == AMQP_PUT || want.dialect == AMQP_CONSUME;
    if (is_amqp && (want.in_flight != 1 || want.body_bytes > MAX_AMQP_BODY))
        die("amqp takes one item in flight, of at most %d bytes", MAX_AMQP_BODY);
    if (want.dialect == AMQP_CONSUME && (!want.items || want.seconds > 0))
        die("amqp-consume takes --ops, and no --seconds: nothing says that a queue is empty");
    if (want.dialect == DIALECTS) die("--dialect is missing");
    if (!want.port) die("--port is missing");
    if (!want.items && want.seconds <= 0) die("say how long: --ops, --seconds or both");
    if (inet_pton(AF_INET, want.host, &address) != 1 || ntohl(address.s_addr) >> 24 != 127)
        die("--host must be a loopback address (127.x.x.x), not \"%s\"", want.host);
    if (!*want.queue || strlen(want.queue) > MAX_QUEUE_NAME ||
        strpbrk(want.queue, want.dialect == MEMCACHE_NAMED ? " \r\n\t" : " /\r\n\t"))
        die("--queue takes 1 to %d characters without blanks or slashes", MAX_QUEUE_NAME);
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    in_room = out_room = (size_t)(want.in_flight + 1) * (want.body_bytes + REQUEST_ROOM);
    if (want.dialect == NATS_PUT || want.dialect == NATS_CONSUME) in_room += MAX_INFO;
    connections = calloc((size_t)want.connections, sizeof *connections);
    seen = calloc(MAX_ITEMS / 8, 1);
    epoll_fd = epoll_create1(0);
    if (!connections || !seen || epoll_fd < 0) die("out of memory or descriptors");
    make_texts();
    running = want.connections;
    for (int i = 0; i < want.connections; i++) open_connection(&connections[i], i);
    run();
    if (want.dialect == AMQP_PUT || want.dialect == AMQP_CONSUME)
        for (int i = 0; i < want.connections; i++) part_amqp(&connections[i]);
    print_result(0);
    return 0;
}
