/* Another module on the same server, which does what the API lets it do, at awkward moments.
 *
 * NEIGHBOUR.CALL format command [arg...]    runs a command by RM_Call, and replies what it replied
 * NEIGHBOUR.THREAD format command [arg...]  the same on a thread of its own
 * NEIGHBOUR.ON event times format command [arg...]
 *                   runs a command inside the notification of a keyspace event, so many times at the
 *                   most; the argument % stands for the key
 * NEIGHBOUR.RAN     how many commands ran inside notifications
 * NEIGHBOUR.CAME    1 when the last call that was answered with LATER has its reply, else 0
 * NEIGHBOUR.REPLY   that reply, once
 *
 * Each word of the loadmodule line is the name of one more command, which replies OK.
 *
 * It is written against the API's names and not against a header: each server hands them out by name.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Reply Reply;
typedef int Command(Ctx *, String **, int);
typedef int Listener(Ctx *, int, const char *, String *);
typedef void LateReply(Ctx *, Reply *, void *);

enum { OK = 0, ERR = 1, API_VERSION = 1, REPLY_PROMISE = 12 };
/* Every class of keyspace events that all servers know, misses and new keys too. */
enum { ALL_EVENTS = 0x7ffc & ~(1 << 12) };

static int (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, Command *, const char *, int, int, int);
static int (*SubscribeToKeyspaceEvents)(Ctx *, int, Listener *);
static const char *(*StringPtrLen)(const String *, size_t *);
static String *(*CreateString)(Ctx *, const char *, size_t);
static void (*FreeString)(Ctx *, String *);
static Reply *(*Call)(Ctx *, const char *, const char *, ...);
static int (*CallReplyType)(Reply *);
static void (*FreeCallReply)(Reply *);
static int (*ReplyWithCallReply)(Ctx *, Reply *);
static int (*ReplyWithError)(Ctx *, const char *);
static int (*ReplyWithSimpleString)(Ctx *, const char *);
static int (*ReplyWithLongLong)(Ctx *, long long);
static int (*ReplyWithNull)(Ctx *);
static int (*WrongArity)(Ctx *);
static Ctx *(*GetDetachedThreadSafeContext)(Ctx *);
static void (*FreeThreadSafeContext)(Ctx *);
static void (*ThreadSafeContextLock)(Ctx *);
static void (*ThreadSafeContextUnlock)(Ctx *);
/* Not on Redis 7.0. */
static void (*CallReplyPromiseSetUnblockHandler)(Reply *, LateReply *, void *);

static const struct {
    const char *name;
    void *at;
    int optional;
} API[] = {
#define FUNCTION(name, optional) {"RedisModule_" #name, &name, optional}
    FUNCTION(SetModuleAttribs, 0),
    FUNCTION(CreateCommand, 0),
    FUNCTION(SubscribeToKeyspaceEvents, 0),
    FUNCTION(StringPtrLen, 0),
    FUNCTION(CreateString, 0),
    FUNCTION(FreeString, 0),
    FUNCTION(Call, 0),
    FUNCTION(CallReplyType, 0),
    FUNCTION(FreeCallReply, 0),
    FUNCTION(ReplyWithCallReply, 0),
    FUNCTION(ReplyWithError, 0),
    FUNCTION(ReplyWithSimpleString, 0),
    FUNCTION(ReplyWithLongLong, 0),
    FUNCTION(ReplyWithNull, 0),
    FUNCTION(WrongArity, 0),
    FUNCTION(GetDetachedThreadSafeContext, 0),
    FUNCTION(FreeThreadSafeContext, 0),
    FUNCTION(ThreadSafeContextLock, 0),
    FUNCTION(ThreadSafeContextUnlock, 0),
    FUNCTION(CallReplyPromiseSetUnblockHandler, 1),
};

enum { MOST_WORDS = 32 };

/* A command to run, in words of our own. */
typedef struct {
    char format[32];
    char *words[MOST_WORDS];
    size_t lengths[MOST_WORDS];
    int count;
} Line;

static Line rule;
static char rule_event[64];
static long long rule_times;
static long long ran;
static Reply *late_reply;
static Reply *promise;

static void line_free(Line *line) {
    for (int i = 0; i < line->count; i++) free(line->words[i]);
    line->count = 0;
}

/* format command [arg...] */
static int line_read(Line *line, String **argv, int argc) {
    line_free(line);
    if (argc < 2 || argc - 1 > MOST_WORDS) return ERR;
    snprintf(line->format, sizeof line->format, "%sv", StringPtrLen(argv[0], NULL));
    for (int i = 1; i < argc; i++) {
        size_t length;
        const char *word = StringPtrLen(argv[i], &length);
        line->words[i - 1] = malloc(length + 1);
        memcpy(line->words[i - 1], word, length);
        line->words[i - 1][length] = 0;
        line->lengths[i - 1] = length;
        line->count = i;
    }
    return OK;
}

static Reply *line_run(Ctx *ctx, const Line *line, const String *key) {
    String *arguments[MOST_WORDS];
    int count = line->count - 1;
    for (int i = 0; i < count; i++) {
        const char *word = line->words[i + 1];
        size_t length = line->lengths[i + 1];
        if (key && !strcmp(word, "%")) word = StringPtrLen(key, &length);
        arguments[i] = CreateString(NULL, word, length);
    }
    Reply *reply = Call(ctx, line->words[0], line->format, arguments, (size_t)count);
    for (int i = 0; i < count; i++) FreeString(NULL, arguments[i]);
    return reply;
}

static void keep_late(Reply *reply) {
    if (late_reply) FreeCallReply(late_reply);
    late_reply = reply;
}

static void came(Ctx *ctx, Reply *reply, void *data) {
    (void)ctx, (void)data;
    keep_late(reply);
    if (promise) FreeCallReply(promise);
    promise = NULL;
}

static int answer(Ctx *ctx, Reply *reply) {
    if (!reply) {
        char text[64];
        snprintf(text, sizeof text, "ERR no reply, errno %d", errno);
        return ReplyWithError(ctx, text);
    }
    if (CallReplyType(reply) == REPLY_PROMISE) {
        CallReplyPromiseSetUnblockHandler(reply, came, NULL);
        keep_late(NULL);
        if (promise) FreeCallReply(promise);
        promise = reply;
            return ReplyWithSimpleString(ctx, "LATER");
    }
    /* One in RESP3 can be passed on to no client of RESP2. */
    if (ReplyWithCallReply(ctx, reply) != OK) ReplyWithSimpleString(ctx, "RESP3");
    FreeCallReply(reply);
    return OK;
}

static int call(Ctx *ctx, String **argv, int argc) {
    static Line line;
    if (line_read(&line, argv + 1, argc - 1)) return WrongArity(ctx);
    return answer(ctx, line_run(ctx, &line, NULL));
}

typedef struct {
    Ctx *ctx;
    Line line;
} Job;

static void *work(void *data) {
    Job *job = data;
    ThreadSafeContextLock(job->ctx);
    keep_late(line_run(job->ctx, &job->line, NULL));
    line_free(&job->line);
    ThreadSafeContextUnlock(job->ctx);
    FreeThreadSafeContext(job->ctx);
    free(job);
    return NULL;
}

static int thread(Ctx *ctx, String **argv, int argc) {
    Job *job = calloc(1, sizeof *job);
    if (line_read(&job->line, argv + 1, argc - 1)) {
        free(job);
        return WrongArity(ctx);
    }
    keep_late(NULL);
    job->ctx = GetDetachedThreadSafeContext(ctx);
    pthread_t id;
    if (pthread_create(&id, NULL, work, job)) return ReplyWithError(ctx, "ERR no thread");
    pthread_detach(id);
    return ReplyWithSimpleString(ctx, "LATER");
}

static int on(Ctx *ctx, String **argv, int argc) {
    if (argc < 5 || line_read(&rule, argv + 3, argc - 3)) return WrongArity(ctx);
    snprintf(rule_event, sizeof rule_event, "%s", StringPtrLen(argv[1], NULL));
    rule_times = atoll(StringPtrLen(argv[2], NULL));
    ran = 0;
    return ReplyWithSimpleString(ctx, "OK");
}

static int how_many_ran(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithLongLong(ctx, ran);
}

static int has_come(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithLongLong(ctx, late_reply != NULL);
}

static int reply(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    if (!late_reply) return ReplyWithNull(ctx);
    ReplyWithCallReply(ctx, late_reply);
    keep_late(NULL);
    return OK;
}

static int okay(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithSimpleString(ctx, "OK");
}

static int happened(Ctx *ctx, int class, const char *event, String *key) {
    (void)class;
    if (rule_times > 0 && !strcasecmp(event, rule_event)) {
        rule_times--;
        ran++;
        Reply *reply = line_run(ctx, &rule, key);
        if (reply) FreeCallReply(reply);
    }
    return OK;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    int (*get_api)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    for (size_t i = 0; i < sizeof API / sizeof *API; i++)
        if (get_api(API[i].name, API[i].at) && !API[i].optional) return ERR;
    SetModuleAttribs(ctx, "neighbour", 1, API_VERSION);
    for (int i = 0; i < argc; i++)
        if (CreateCommand(ctx, StringPtrLen(argv[i], NULL), okay, "", 0, 0, 0)) return ERR;
    const struct {
        const char *name;
        Command *run;
    } commands[] = {
        {"neighbour.call", call},         {"neighbour.thread", thread}, {"neighbour.on", on},
        {"neighbour.ran", how_many_ran},  {"neighbour.came", has_come},   {"neighbour.reply", reply},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (CreateCommand(ctx, commands[i].name, commands[i].run, "", 0, 0, 0)) return ERR;
    return SubscribeToKeyspaceEvents(ctx, ALL_EVENTS, happened);
}
