//! The states that a connection can be in when it sends a command, and the ways in which it ends.
//!
//! Lines are written as in `script`.

/// What a connection does before and after the command that it is there for.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) name: &'static str,
    /// Sent before the command.
    pub(crate) before: &'static [&'static str],
    /// Sent behind it.
    pub(crate) after: &'static [&'static str],
    pub(crate) wrap: Option<Wrap>,
    /// Replies may not be sent, or cannot be read.
    pub(crate) silent: bool,
    /// The server closes the connection by itself: nothing that comes later is run.
    pub(crate) closes: bool,
    pub(crate) end: Option<End>,
}

/// In what a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// Run by a script or a function; this command is put before it.
    Call(&'static [&'static str]),
    /// As a line of text.
    Inline,
}

/// How a connection ends before its command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With what it sends.
    AtOnce(Cut),
    /// When the server has run what it could of that.
    Later(Cut),
    /// Then these lines are sent by another connection, at once.
    By(&'static [&'static str]),
}

/// What the client's side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Says that it sends no more, and reads on.
    Half,
    /// Says that it is gone, whatever was not read yet.
    Reset,
    /// Sends what no server understands.
    Garbage,
}

/// A script that calls the words behind it.
pub(crate) const SCRIPT: &str = "return redis.pcall(unpack(ARGV))";
/// The same as functions.
pub(crate) const LIBRARY: &str = "#!lua name=states\n\
    local function run(keys, words) return redis.pcall(unpack(words)) end\n\
    redis.register_function('run', run)\n\
    redis.register_function{function_name='look', callback=run, flags={'no-writes'}}";

/// Nothing but the command is sent.
const fn bare(name: &'static str) -> State {
    State {
        name,
        before: &[],
        after: &[],
        wrap: None,
        silent: false,
        closes: false,
        end: None,
    }
}

const fn sends(name: &'static str, before: &'static [&'static str]) -> State {
    bare(name).before(before)
}

const fn called(name: &'static str, by: &'static [&'static str]) -> State {
    bare(name).wrapped(Wrap::Call(by))
}

const fn ends(name: &'static str, end: End) -> State {
    State {
        end: Some(end),
        ..bare(name).closing()
    }
}

impl State {
    const fn before(mut self, lines: &'static [&'static str]) -> Self {
        self.before = lines;
        self
    }

    const fn after(mut self, lines: &'static [&'static str]) -> Self {
        self.after = lines;
        self
    }

    const fn wrapped(mut self, wrap: Wrap) -> Self {
        self.wrap = Some(wrap);
        self
    }

    const fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    const fn closing(mut self) -> Self {
        self.closes = true;
        self
    }
}

/// When the lock is on its way to it.
const KILLED: &[&str] = &["LOCK.RELEASE @key them", "CLIENT KILL ADDR @address"];
const UNBLOCKED: &[&str] = &["LOCK.RELEASE @key them", "CLIENT UNBLOCK @id"];

/// Those after which a connection continues come first.
pub(crate) const STATES: &[State] = &[
    sends("RESP2", &["HELLO 2"]),
    sends("RESP3", &["HELLO 3"]),
    sends("named", &["HELLO 3 SETNAME peer"]),
    sends("named at log-in", &["HELLO 3 AUTH able able SETNAME peer"]),
    bare("inline").wrapped(Wrap::Inline),
    sends("SUBSCRIBE", &["SUBSCRIBE news"]),
    sends("PSUBSCRIBE", &["PSUBSCRIBE __key*"]),
    sends("SSUBSCRIBE", &["SSUBSCRIBE news"]),
    sends("RESP3, SUBSCRIBE", &["HELLO 3", "SUBSCRIBE news"]),
    sends("RESP3, PSUBSCRIBE", &["HELLO 3", "PSUBSCRIBE __key*"]),
    sends("RESP3, SSUBSCRIBE", &["HELLO 3", "SSUBSCRIBE news"]),
    sends("subscribed once", &["SUBSCRIBE news", "UNSUBSCRIBE"]),
    sends("MONITOR", &["MONITOR"]),
    sends("MULTI", &["MULTI"]).after(&["EXEC"]),
    sends("MULTI, DISCARD", &["MULTI"]).after(&["DISCARD"]),
    sends("aborted MULTI", &["MULTI"]).after(&["LOCK.INFO", "EXEC"]),
    sends("open MULTI", &["MULTI"]),
    sends("WATCH", &["WATCH @key"]).after(&["MULTI", "LOCK.INFO @key", "EXEC"]),
    sends("WATCH, MULTI", &["WATCH @key", "MULTI"]).after(&["EXEC"]),
    sends("REPLY OFF", &["CLIENT REPLY OFF"]).silent(),
    sends("REPLY SKIP", &["CLIENT REPLY SKIP"]).silent(),
    sends("REPLY ON", &["CLIENT REPLY OFF", "CLIENT REPLY ON"]).silent(),
    sends("RESET", &["RESET"]),
    sends("AUTH", &["AUTH able able"]),
    sends("AUTH, few rights", &["AUTH unable unable"]),
    sends("AUTH, other keys", &["AUTH elsewhere elsewhere"]),
    sends("AUTH refused", &["AUTH able wrong"]),
    sends("SELECT", &["SELECT 3"]),
    sends("SELECT refused", &["SELECT 99"]),
    bare("TRACKING").before(&["HELLO 3", "CLIENT TRACKING ON", "LOCK.INFO @key"]),
    sends("TRACKING BCAST", &["HELLO 3", "CLIENT TRACKING ON BCAST"]),
    bare("TRACKING BCAST PREFIX").before(&["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX @key"]),
    bare("TRACKING OPTIN").before(&["HELLO 3", "CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES"]),
    bare("TRACKING OPTOUT").before(&["HELLO 3", "CLIENT TRACKING ON OPTOUT", "CLIENT CACHING NO"]),
    bare("TRACKING NOLOOP").before(&["HELLO 3", "CLIENT TRACKING ON NOLOOP", "LOCK.INFO @key"]),
    bare("TRACKING REDIRECT").before(&["CLIENT TRACKING ON REDIRECT @listener", "LOCK.INFO @key"]),
    bare("TRACKING BCAST REDIRECT").before(&["CLIENT TRACKING ON BCAST REDIRECT @listener"]),
    bare("TRACKING OFF").before(&["CLIENT TRACKING ON", "CLIENT TRACKING OFF"]),
    sends("NO-EVICT", &["CLIENT NO-EVICT ON"]),
    sends("NO-TOUCH", &["CLIENT NO-TOUCH ON"]),
    sends("CAPA redirect", &["CLIENT CAPA redirect"]),
    sends("IMPORT-SOURCE", &["CLIENT IMPORT-SOURCE ON"]),
    sends("READONLY", &["READONLY"]),
    sends("READWRITE", &["READONLY", "READWRITE"]),
    sends("ASKING", &["ASKING"]),
    bare("REPLCONF").before(&["REPLCONF listening-port 1", "REPLCONF capa eof capa psync2"]),
    sends("PSYNC", &["REPLCONF capa psync2", "PSYNC ? -1"]).silent(),
    sends("BLPOP", &["BLPOP @nowhere 0.01"]),
    sends("XREAD", &["XREAD BLOCK 10 STREAMS @nowhere $"]),
    sends("WAIT", &["WAIT 9 10"]),
    sends("WAITAOF", &["WAITAOF 0 9 10"]),
    // Another lock, which is held, and this one, which may be.
    sends("ACQUIRE BLOCK", &["LOCK.ACQUIRE @gate @me BLOCK 10"]),
    bare("ACQUIRE BLOCK twice").before(&[
        "LOCK.ACQUIRE @key @me BLOCK 10",
        "LOCK.ACQUIRE @gate @me BLOCK 10",
    ]),
    sends("ACQUIRE", &["LOCK.ACQUIRE @key @me PX 600000"]),
    sends("unread replies", &["GET large", "GET large", "GET large"]),
    called("EVAL", &["EVAL", SCRIPT, "0"]),
    called("EVAL_RO", &["EVAL_RO", SCRIPT, "0"]),
    called("FCALL", &["FCALL", "run", "0"]),
    called("FCALL_RO", &["FCALL_RO", "look", "0"]),
    bare("QUIT behind").after(&["QUIT"]),
    bare("RESET behind").after(&["RESET"]),
    bare("CLIENT KILL behind").after(&["CLIENT KILL ADDR @address SKIPME no"]),
    bare("more behind").after(&[
        "LOCK.RELEASE @key @me",
        "LOCK.ACQUIRE @key @me BLOCK 10",
        "LOCK.RENEW @key @me PX 600000",
    ]),
    sends("QUIT", &["QUIT"]).closing(),
    sends("CLIENT KILL", &["CLIENT KILL ADDR @address SKIPME no"]).closing(),
    // What a transaction has begun, it ends.
    bare("CLIENT KILL in MULTI")
        .closing()
        .before(&["MULTI", "CLIENT KILL ADDR @address SKIPME no"])
        .after(&["EXEC"]),
    sends("too much unread", &["GET huge"]).closing(),
    ends("half closed at once", End::AtOnce(Cut::Half)),
    ends("half closed", End::Later(Cut::Half)),
    ends("reset at once", End::AtOnce(Cut::Reset)),
    ends("reset", End::Later(Cut::Reset)),
    ends("garbage at once", End::AtOnce(Cut::Garbage)),
    ends("garbage", End::Later(Cut::Garbage)),
    ends("killed", End::By(&["CLIENT KILL ADDR @address"])),
    ends("killed when granted", End::By(KILLED)),
    ends("unblocked when granted", End::By(UNBLOCKED)),
    ends("unblocked", End::By(&["CLIENT UNBLOCK @id"])),
    ends("unblocked: error", End::By(&["CLIENT UNBLOCK @id ERROR"])),
    ends("user deleted", End::By(&["ACL DELUSER @me"])).before(&["AUTH @me @me"]),
    ends("rights taken", End::By(&["ACL SETUSER @me resetkeys"])).before(&["AUTH @me @me"]),
];

/// The database that `SELECT` leads to.
pub(crate) const OTHER_DATABASE: i64 = 3;
