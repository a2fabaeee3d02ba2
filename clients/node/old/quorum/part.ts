/** What one server has to do with one attempt to take a lock, until it holds the lock for good or is to free it. */

import { LockBusy, LockError, LockLost, LockUnavailable, ServerReply } from "../errors.ts";
import { grantOf } from "../replies.ts";
import { Ask } from "../servers.ts";
import { Stop } from "../stop.ts";
import { mayHaveBeen } from "../undo.ts";
import type { Member } from "./member.ts";

/** What a server has said. Without an error it has done what it was asked. */
export interface Vote {
  /** Its place in the order in which the servers were given. */
  readonly server: number;
  readonly error?: LockError;
}

/** Told of each time that all servers are asked: what they have said, when all were heard or their time was over. */
export type OnVotes = (votes: Promise<readonly Vote[]>) => void;

/** One attempt. */
export interface AttemptRequest {
  /** The key as the user knows it. */
  readonly name: string;
  /** Nobody has used it before, but to wait in a line. */
  readonly owner: string;
  readonly lease: number;
  /** How long a server may take to answer. */
  readonly ms: number;
}

export class Part {
  readonly member: Member;
  /** The token of the server's grant, when it has granted. */
  token: number | undefined;
  /** Whether others have the lock there. */
  isBusy = false;
  /** Why it has neither granted nor refused for others. */
  error: LockError | undefined;
  /** Whether the first question is answered, or its time over. */
  isHeard = false;
  /** The token that the grant stands at. Once raised, it is raised no more. */
  raised: number | undefined;
  /** The last token to which the grant was to be raised and was not. */
  #refused: number | undefined;
  #isGone = false;
  /** A renewal of the lock has begun, and whether it may have renewed the grant here. */
  #isLeft = false;
  #isRenewed = false;
  readonly #request: AttemptRequest;
  readonly #changed: () => void;
  readonly #ask = new Ask();
  readonly #halt = new Stop();
  #last: Promise<void>;

  constructor(member: Member, request: AttemptRequest, changed: () => void) {
    this.member = member;
    this.#request = request;
    this.#changed = changed;
    this.#last = this.#take();
  }

  get vote(): Vote {
    const { name } = this.#request;
    const error = this.isBusy ? new LockBusy(`${name}: others hold it there`, { key: name })
      : this.error ?? (this.token === undefined ? new LockUnavailable(`${name}: no answer`, { key: name }) : undefined);
    return { server: this.member.place, ...(error && { error }) };
  }

  /** When all that was asked of the server so far is answered, or was given up. */
  get answered(): Promise<void> {
    return this.#last;
  }

  /** Whether it is known what became of raising the grant to this token. */
  isDecided(token: number): boolean {
    return this.#isGone || this.raised !== undefined || this.#refused === token;
  }

  /** Whether the server has the grant, and this token is too far ahead of its time. */
  isBehind(token: number): boolean {
    return this.#refused === token && !this.#isGone;
  }

  /** Lifts the grant to this token as soon as it is there. */
  raise(token: number): void {
    this.#last = this.#last.then(() => this.#raise(token));
  }

  /** The lock is held with this token: what stands there, or can be lifted to it, stays; all else is released. */
  keep(token: number): Promise<void> {
    return (this.#last = this.#last.then(async () => {
      if (!this.#isLeft) await this.#raise(token);
      if (this.raised !== token && !this.#isRenewed) await this.#release();
    }));
  }

  /** A renewal begins: nothing is lifted behind it, which would bring an earlier lease back, and what it has is not released. */
  leave(): void {
    this.#isLeft = true;
    if (this.token === undefined) return;
    this.#isRenewed = true;
    this.halt();
  }

  /** No answer is waited for any more: the attempt was called off, or its lock is released. */
  halt(): void {
    this.#halt.stop(new Error("the attempt was called off"));
  }

  /** The attempt has failed. */
  giveUp(): Promise<void> {
    return (this.#last = this.#last.then(() => this.#release()));
  }

  get #key(): string {
    return this.member.prefix + this.#request.name;
  }

  async #take(): Promise<void> {
    const { name, owner, lease, ms } = this.#request;
    try {
      const { reply } = await this.member.ask(["LOCK.ACQUIRE", this.#key, owner, "PX", lease, "HOLDS", 1],
        { kind: "acquire", name, ms, stop: this.#halt }, this.#ask);
      this.token = grantOf(reply)?.token;
      this.isBusy = this.token === undefined;
    } catch (error) {
      this.error = error instanceof LockError ? error : new LockUnavailable(`${name}: no answer`, { key: name, cause: error });
    }
    this.isHeard = true;
    this.#changed();
  }

  async #raise(token: number): Promise<void> {
    const { name, owner, lease, ms } = this.#request;
    if (this.token === undefined || this.token > token || this.raised !== undefined || this.#isGone) return;
    try {
      await this.member.ask(["LOCK.RENEW", this.#key, owner, "PX", lease, "TOKEN", this.token, "RAISE", token],
        { kind: "renew", name, ms, stop: this.#halt }, this.#ask);
      this.raised = token;
    } catch (error) {
      const isAhead = error instanceof LockError && error.cause instanceof ServerReply && error.cause.message.startsWith("AHEAD");
      this.#refused = token;
      this.#isGone = !isAhead;
      if (this.#isGone && error instanceof LockError && !(error instanceof LockLost)) this.error = error;
    }
    this.#changed();
  }

  async #release(): Promise<void> {
    const { name, owner, ms } = this.#request;
    const mayBeThere = this.token !== undefined || (this.error && mayHaveBeen(this.#ask, this.error));
    if (!mayBeThere) return; // nothing is there, or will be
    await this.member.release(this.#key, owner, { name, ms }, this.#ask).catch(() => {});
  }
}
