//! Writes the reply to a POLL. The core's `sessions/polls.rs` computes it.

use redis_lock_core::Token;
use redis_lock_core::sessions::{Event, EventKind, PollReply, SessionId};

use crate::server::Context;

pub(crate) fn write_reply(context: Context<'_>, reply: &PollReply) {
    context.reply_map(3);
    context.reply_bytes(b"sure-ms");
    context.reply_integer(reply.sure_ms);
    context.reply_bytes(b"grants");
    context.reply_integer(i64::try_from(reply.grants).unwrap_or(i64::MAX));
    context.reply_bytes(b"events");
    context.reply_array(reply.events.len());
    for event in &reply.events {
        write_event(context, event);
    }
}

fn write_event(context: Context<'_>, event: &Event) {
    let (kind, parts): (&[u8], usize) = match &event.kind {
        EventKind::Granted { .. } => (b"granted", 4),
        EventKind::Ended(_) => (b"ended", 1),
        EventKind::Lost { .. } => (b"lost", 2),
        EventKind::Taken { .. } => (b"taken", 2),
    };
    context.reply_array(4 + parts);
    context.reply_integer(event.number.cast_signed());
    context.reply_bytes(kind);
    context.reply_bytes(&event.key);
    context.reply_bytes(event.owner.as_owner().bytes());
    let write_token = |token: Token| context.reply_integer(token.number().cast_signed());
    match &event.kind {
        EventKind::Granted {
            token,
            holds,
            lease,
            limit,
        } => {
            write_token(*token);
            context.reply_integer(i64::from(*holds));
            context.reply_integer(lease.millis().cast_signed());
            context.reply_integer(i64::from(*limit));
        }
        EventKind::Ended(text) => context.reply_bytes(text.as_bytes()),
        EventKind::Lost { token, reason } => {
            write_token(*token);
            context.reply_bytes(reason.word().as_bytes());
        }
        EventKind::Taken { token, session } => {
            write_token(*token);
            let session = session.map_or(0, SessionId::number);
            context.reply_integer(session.cast_signed());
        }
    }
}
