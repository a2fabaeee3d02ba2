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

/** One owner for several locks. Without a name the next acquire uses a fresh one. */
export interface TaskOwner {
  name: string;
}

/** What a claim is for. All times are in ms. */
export interface ClaimTerms {
  /** The words SHARED or LIMIT n. */
  readonly mode: Words;
  readonly lease: number;
  /** The lease is not renewed: the grant leaves the session before the user has it. */
  readonly isFixed: boolean;
  /** 0: it does not wait; Infinity: without a limit. */
  readonly wait: number;
}

/** Who asks, to whom the `State` has a claim passed on. */
export interface Caller {
  /** The claim has changed: look again. */
  changed(): void;
  /** Another node of the cluster may have the grant. */
  find(): void;
}

/** One acquire. The fields are changed by `State` alone. */
export class Claim {
  readonly key: string;
  readonly owner: string;
  readonly name: string;
  readonly terms: ClaimTerms;
  readonly caller: Caller;
  task: TaskOwner | undefined;
  /** The token of a grant to adopt, instead of a new one; 0: none. */
  adopted = 0;
  /** The server that has the lock. */
  server: SessionState;
  phase: Phase = "asked";
  /** Of the place, or of the grant; 0: none. */
  session = 0;
  lease: number;
  token = 0;
  holds = 1;
  /** Of the loss. */
  reason = "";
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
  /** Among the waits. */
  order = 0;
  /** ACQUIREs without a reply, which the server may still carry out. */
  open = 0;
  /** Of the last try that failed. */
  cause: Fault | undefined;
  /** What ended the wait. */
  failure: LockError | undefined;
  /** See `State.sure`. */
  ownSure = 0;
  /** No POLL sent before makes it sure; Infinity while a RENEW of the user is unanswered. */
  from = 0;
  /** A RENEW takes it out of its session. */
  leaves = false;
  /** Another node of the cluster may have it: the reason of its loss if not. */
  doubt = "";

  constructor(key: string, owner: string, terms: ClaimTerms, caller: Caller, server: SessionState, reply: number, at: number) {
    this.key = key;
    this.owner = owner;
    this.name = nameOf(key, owner);
    this.terms = terms;
    this.caller = caller;
    this.server = server;
    this.lease = terms.lease;
    const asking = Math.max(terms.wait, reply);
    this.limit = Math.min(reply, asking / 2);
    this.end = at + terms.wait;
    this.askedEnd = at + asking;
    this.last = at + terms.wait + reply;
  }

  get isWaiting(): boolean {
    return this.phase === "asked" || this.phase === "in line";
  }

  /** Asks for the lock. HOLDS 1 makes it safe to repeat. */
  acquireCommand(session: number, at: number): Words {
    const { mode, wait } = this.terms;
    const lease = Math.ceil(Math.max(this.lease, LEAST_LEASE));
    if (this.adopted) return ["LOCK.RENEW", this.key, this.owner, "PX", lease, "SESSION", session, "TOKEN", this.adopted];
    const words = ["LOCK.ACQUIRE", this.key, this.owner, ...mode, "PX", lease, "SESSION", session, "HOLDS", 1];
    if (wait > 0) words.push("QUEUE", wait === Infinity ? 0 : Math.max(1, Math.floor(Math.min(this.end - at, TEN_YEARS))));
    return words;
  }

  /** The user's own release. It alone names the session, so that the server reports no loss. */
  releaseCommand(): Words {
    const words = ["LOCK.RELEASE", this.key, this.owner, "HOLDS", this.holds, "TOKEN", this.token];
    if (this.session) words.push("SESSION", this.session);
    return words;
  }

  /** Makes sure that the owner neither holds the lock nor waits for it. */
  cancelCommand(): Words {
    return ["LOCK.RELEASE", this.key, this.owner, "ALL"];
  }

  /** Changes the grant. */
  renewCommand(...words: Words): Words {
    return ["LOCK.RENEW", this.key, this.owner, ...words, "TOKEN", this.token];
  }

  /** The task goes on with a fresh owner. */
  renounceOwner(): void {
    if (this.task) this.task.name = "";
  }
}

/** What is known of one server: its session. The fields are changed by `State` alone. */
export class SessionState {
  /** How errors name the server. */
  readonly address: string;
  /** 0: there is none. */
  session = 0;
  /** What the session renews, or will. */
  readonly grants = new Set<Claim>();
  /** The number of the last event that was applied. */
  seen = 0;
  /** Until when POLLs make grants sure; each reaches less far than those before it. */
  sures: { readonly sent: number; readonly till: number }[] = [];
  /** No grant's time ends before. */
  soonest = Infinity;
  /** A grant or place may belong to an earlier session. */
  outside = false;
  /** Since when every reply shows more grants than are known. */
  excess: number | undefined;
  /** When the failed tries of the last second began. */
  tries: number[] = [];
  /** Of the last try. */
  fault: Fault | undefined;
  /** A release was refused. */
  isLeaving = false;
  /** Sessions that were left, and when. */
  readonly left = new Map<number, number>();

  constructor(address: string) {
    this.address = address;
  }

  /** Those that `close` leaves to be closed. */
  get sessions(): number[] {
    return this.session ? [...this.left.keys(), this.session] : [...this.left.keys()];
  }
}
