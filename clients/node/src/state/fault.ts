/** Replies that are errors, and replies that did not come. */

import { LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "../errors.ts";

type Kind = typeof LockError;

/** The kinds of error replies and ends of a wait, by how they begin. Others are misuse. */
const KINDS: readonly (readonly [Kind, RegExp])[] = [
  [LockUnavailable, new RegExp("^(NOSESSION|LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|CLUSTERDOWN"
    + "|TRYAGAIN|MOVED|ASK|REDIRECT|ERR max number of clients)")],
  [LockLost as Kind, /^(NOTHELD|NOTOWNER|FENCED)/],
  [LockRefused, new RegExp("^(NOPERM|NOAUTH|WRONGPASS|OOM|MAXWAITERS|MAXSESSIONS|DENIED|NOPROTO|CERTIFICATE|AHEAD"
    + "|ERR unknown (sub)?command|ERR AUTH|ERR invalid password|ERR Protocol error: unauthenticated"
    + "|ERR no fencing token is left|ERR a fault inside the module)")],
  [LockDeadlock, /^DEADLOCK/],
  [LockBusy, /^(not free|timeout|cancelled)/],
  [LockNotAlone, /^NOTALONE/],
];

/** The likely causes of those that say too little. */
const HINTS: readonly (readonly [string, string])[] = [
  ["WRONGTYPE", "this key is not a lock of the module: an old SET NX lock of this name?"],
  ["ERR unknown", "is the module lock, 0.3 or later, loaded there?"],
  ["NOPERM", "the user needs permission for this command, LOCK.SESSION and the key"],
  ["DEADLOCK", "release another lock of the task first"],
  ["not free", "other owners hold it or wait for it"],
  ["timeout", "other owners hold it or wait for it"],
  ["cancelled", "another call in the name of its owner has ended the wait"],
  ["NOTALONE", "release the lock first, then acquire it"],
];

/** An error reply of the server, or a reply that did not come. */
export class Fault {
  /** The same call may succeed later. */
  readonly passing: boolean;
  /** The grant that the call was about is over. */
  readonly gone: boolean;
  /** The key is at another node of the cluster. */
  readonly redirects: boolean;

  /** `word`: the first one of an error reply. `noReply`: the server may still carry out the call. */
  private constructor(readonly text: string, readonly cause: unknown, private readonly kind: Kind, readonly word: string,
    readonly noReply: boolean) {
    this.passing = kind === LockUnavailable;
    this.gone = kind === LockLost || word === "WRONGTYPE";
    this.redirects = word === "MOVED" || word === "ASK";
  }

  /** An error reply. */
  static reply(text: string, cause?: unknown): Fault {
    const kind = KINDS.find(([, begins]) => begins.test(text))?.[0] ?? LockMisuse;
    return new Fault(text, cause, kind, text.split(" ", 1)[0] || "ERR", false);
  }

  /** No reply. `isSent`: the server may have received the call, or may yet. */
  static none(text: string, isSent: boolean, cause?: unknown): Fault {
    return new Fault(text, cause, LockUnavailable, "", isSent);
  }

  /** What it means to the user. */
  error(key: string, server: string): LockError {
    const hint = HINTS.find(([begins]) => this.text.startsWith(begins))?.[1];
    const message = `${key}: ${server}: ${this.text}${hint === undefined ? "" : ` (${hint})`}`;
    return new this.kind(message, { key, cause: this.cause });
  }
}

/** What an error of a client library means. `isSent`: the server may have received the call. */
export function understood(error: unknown, isSent: boolean): Fault {
  if (error instanceof Fault) return error;
  const { name, message, code } = Object(error) as { readonly name?: string; readonly message?: string; readonly code?: unknown };
  const text = message || String(error);
  const className = Object(error).constructor.name as string; // of node-redis; ioredis gives its errors a name
  if (name === "ReplyError" || /^(Simple|Blob)Error$|ErrorReply$/.test(className)) return Fault.reply(text, error);
  const isCertificate = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(String(code));
  return isCertificate ? Fault.reply(`CERTIFICATE ${text}`, error) : Fault.none(text, isSent, error);
}
