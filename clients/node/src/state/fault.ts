/** Replies that are errors, and replies that did not come. */

import { LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "../errors.ts";

type Kind = typeof LockError;

/** The kinds of error replies, by how they begin. Others are misuse. */
const KINDS: readonly (readonly [Kind, RegExp])[] = [
  [LockUnavailable, new RegExp("^(NOSESSION|LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|CLUSTERDOWN"
    + "|TRYAGAIN|MOVED|ASK|REDIRECT|ERR max number of clients)")],
  [LockLost as Kind, /^(NOTHELD|NOTOWNER|FENCED)/],
  [LockRefused, new RegExp("^(NOPERM|NOAUTH|WRONGPASS|OOM|MAXWAITERS|MAXSESSIONS|DENIED|NOPROTO|CERTIFICATE|AHEAD"
    + "|ERR unknown (sub)?command|ERR AUTH|ERR invalid password|ERR Protocol error: unauthenticated"
    + "|ERR no fencing token is left|ERR a fault inside the module)")],
  [LockDeadlock, /^DEADLOCK/],
  [LockNotAlone, /^NOTALONE/],
];

/** The likely causes of those that say too little. */
const HINTS: readonly (readonly [string, string])[] = [
  ["WRONGTYPE", "this key is not a lock of the module: an old SET NX lock of this name?"],
  ["ERR unknown", "is the module lock, 0.3 or later, loaded there?"],
  ["NOPERM", "the user needs permission for this command, LOCK.SESSION and the key"],
  ["DEADLOCK", "release another lock of the task first"],
  ["NOTALONE", "release the lock first, then acquire it"],
];

/** An error reply of the server, or a reply that did not come. */
export class Fault {
  readonly text: string;
  readonly cause: unknown;
  /** The first word of an error reply; empty without a reply. */
  readonly word: string;
  readonly #kind: Kind | undefined;
  /** Without a reply: the server may still carry out the call. */
  readonly noReply: boolean;

  private constructor(text: string, cause: unknown, kind: Kind | undefined, noReply: boolean) {
    this.text = text;
    this.cause = cause;
    this.word = kind ? (text.split(" ", 1)[0] || "ERR") : "";
    this.#kind = kind;
    this.noReply = noReply;
  }

  /** An error reply. */
  static reply(text: string, cause?: unknown): Fault {
    return new Fault(text, cause, KINDS.find(([, begins]) => begins.test(text))?.[0] ?? LockMisuse, false);
  }

  /** No reply. `isSent`: the server may have received the call, or may yet. */
  static none(text: string, isSent: boolean, cause?: unknown): Fault {
    return new Fault(text, cause, undefined, isSent);
  }

  /** Whether the same call may succeed later. */
  get passing(): boolean {
    return this.#kind === undefined || this.#kind === LockUnavailable;
  }

  /** Whether the grant that the call was about is over. */
  get gone(): boolean {
    return this.#kind === LockLost || this.word === "WRONGTYPE";
  }

  /** Whether the key is at another node of the cluster. */
  get redirects(): boolean {
    return this.word === "MOVED" || this.word === "ASK";
  }

  /** What it means to the user. */
  error(key: string, server: string): LockError {
    const hint = HINTS.find(([begins]) => this.text.startsWith(begins))?.[1];
    const message = `${key}: ${server}: ${this.text}${hint === undefined ? "" : ` (${hint})`}`;
    return new (this.#kind ?? LockUnavailable)(message, { key, cause: this.cause });
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
