/** A claim, which is one acquire: first a wait, then a grant. And the session of the server where it is. */

import type { LockError } from "../errors.ts";
import type { Fault } from "./fault.ts";

/** The words of a command. */
export type Words = readonly (string | number)[];

/** A wait is asked, in line or over (without a grant). A grant that is held and whose time has passed is unsure. */
export type Phase = "asked" | "in line" | "over" | "held" | "lost" | "released";

/** The shortest lease that the server renews. */
export const LEAST_LEASE = 1000;
const TEN_YEARS = 315_360_000_000;

/** No two claims of a client have the same one. */
export const nameOf = (key: string, owner: string): string => `${key}\0${owner}`;

/** One owner for several locks. */
export interface TaskOwner {
  /** Empty: the next acquire uses a fresh one. */
  name: string;
  /** Its grants, by key. */
  readonly held: Map<string, Claim>;
  /** How many calls about its claims are under way. */
  calls: number;
}

/** What a claim is for. All times are in ms. */
export interface Terms {
  /** The words SHARED or LIMIT n. */
  readonly mode: Words;
  readonly lease: number;
  /** The lease is not renewed: the grant leaves the session before the user has it. */
  readonly isFixed: boolean;
  /** 0: it does not wait; Infinity: without a limit. */
  readonly wait: number;
  /** The user's limit of holding it. */
  readonly maxHold: number;
  readonly signal?: AbortSignal | undefined;
  readonly task?: TaskOwner | undefined;
  /** The grant to take over, instead of a new one. */
  readonly adopted?: { readonly owner: string; readonly token: number };
}

/** One acquire. The fields are changed by `State`, `server` and `holds` by its `Holding` too. */
export abstract class Claim {
  readonly name: string;
  phase: Phase = "asked";
  /** Of the place, or of the grant; 0: it is outside of sessions; -1: it is to be moved into one. */
  session = 0;
  lease: number;
  token = 0;
  holds = 1;
  /** The user has the grant. */
  isHandedOver = false;
  /** Of one try: a dead connection takes half of the time at most. */
  readonly limit: number;
  /** The end of the caller's time. */
  readonly end: number;
  /** The end of asking without a reply. */
  readonly askedEnd: number;
  /** When the caller gives up at the latest. */
  readonly last: number;
  /** How many calls about it are under way. */
  calls = 0;
  /** The losses of its grants that were reported while calls are under way, by token: a reply may name one of them. */
  losses: Map<number, string> | undefined;
  /** ACQUIREs without a reply, which the server may still carry out. */
  open = 0;
  /** When its session reported the end of a place with a passing error. */
  endedAt = -Infinity;
  /** Of the last try that failed. */
  cause: Fault | undefined;
  /** The error that ended the wait, or that reports the loss of the grant. */
  failure: LockError | undefined;
  /** Until when nobody else has the lock. */
  sure = 0;
  /** No POLL sent before makes it sure; Infinity while a RENEW of the user is unanswered. */
  from = 0;
  /** Another node of the cluster may have it: the reason of its loss if not. */
  doubt = "";

  /** `server` has the lock. */
  constructor(readonly key: string, readonly owner: string, readonly terms: Terms, public server: SessionState, reply: number,
    at: number) {
    this.name = nameOf(key, owner);
    this.lease = terms.lease;
    const asking = Math.max(terms.wait, reply);
    this.limit = Math.min(reply, asking / 2);
    this.end = at + terms.wait;
    this.askedEnd = at + asking;
    this.last = at + terms.wait + reply;
  }

  /** It has changed: its caller looks again, when the state has done its work. */
  abstract changed(): void;

  /** It is to be asked for by RENEW where its key is now. Its reply is for `moved`. */
  abstract seek(): void;

  get isWaiting(): boolean {
    return this.phase === "asked" || this.phase === "in line";
  }

  /** Whether it is neither a wait nor a grant any more. */
  get isOver(): boolean {
    return !this.isWaiting && this.phase !== "held";
  }

  /** Whether it is a grant that the session renews, or will. */
  get isRenewed(): boolean {
    return this.phase === "held" && this.session !== 0;
  }

  /** Asks for the lock. HOLDS 1 makes it safe to repeat. */
  acquireCommand(session: number, at: number): Words {
    const { mode, wait, adopted } = this.terms;
    const lease = Math.ceil(Math.max(this.lease, LEAST_LEASE));
    if (adopted) return ["LOCK.RENEW", this.key, this.owner, "PX", lease, "SESSION", session, "TOKEN", adopted.token];
    const words = ["LOCK.ACQUIRE", this.key, this.owner, ...mode, "PX", lease, "SESSION", session, "HOLDS", 1];
    if (wait > 0) words.push("QUEUE", wait === Infinity ? 0 : Math.max(1, Math.floor(Math.min(this.end - at, TEN_YEARS))));
    return words;
  }

  /** The user's own release. It alone names the session, so that the server reports no loss. */
  releaseCommand(): Words {
    const { key, owner, holds, token, session } = this;
    return ["LOCK.RELEASE", key, owner, "HOLDS", holds, "TOKEN", token, ...(session > 0 ? ["SESSION", session] : [])];
  }

  /** Changes the grant. */
  renewCommand(...words: Words): Words {
    return ["LOCK.RENEW", this.key, this.owner, ...words, "TOKEN", this.token];
  }

  /** The task goes on with a fresh owner. */
  renounceOwner(): void {
    if (this.terms.task) this.terms.task.name = "";
  }
}

/** A call about a claim, from before its sending until its reply has been applied. */
export interface Call {
  readonly claim: Claim;
  /** Where the last try went, and in which session. */
  server: SessionState;
  session: number;
  /** When the last try was sent. */
  sent: number;
  /** The last reply, or its Fault. */
  reply: unknown;
  /** An earlier try had no reply. */
  wasOpen: boolean;
}

/** The session of one server. The fields are changed by `State`; the loop of the server forgets `session`. */
export class SessionState {
  /** 0: there is none. */
  session = 0;
  /** The number of the last event that was applied. */
  seen = 0;
  /** Grants that this client takes out of the session, until their `taken`. */
  leaves: string[] = [];
  /** Grants or places may belong to an earlier session. */
  isMoving = false;
  /** When the grants were last gone through. */
  swept = 0;
  /** The time of a grant has passed: the next reply decides. */
  isUnsure = false;
  /** Since when every reply shows more grants than are known. */
  excess: number | undefined;
  /** When the failed tries of the last reply timeout began. */
  tries: number[] = [];
  /** Of the last try. */
  fault: Fault | undefined;
  /** A release was refused. */
  isLeaving = false;
  /** Sessions that were left, and when. */
  readonly left = new Map<number, number>();

  /** `address`: how errors name the server. */
  constructor(readonly address: string) {}
}
