/** What is under way for the locks of a process: calls that can be called off, grants, work in the background, and its end. */

import diagnostics from "node:diagnostics_channel";
import { LockBusy, LockLost, LockMisuse } from "./errors.ts";
import type { Grant } from "./grant.ts";
import type { Holding } from "./holding.ts";
import type { LockEvent, LocksOptions, Wish } from "./options.ts";
import { Stop } from "./stop.ts";
import { now } from "./time.ts";

const channel = diagnostics.channel("redis-lock-client");

export abstract class Scope {
  protected readonly options: LocksOptions;
  readonly #pending = new Set<Stop>();
  readonly #holdings = new Set<Holding>();
  readonly #background = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;
  /** What is held is lost by the closing from here on. */
  protected isClosing = false;

  constructor(options: LocksOptions) {
    this.options = options;
  }

  /** Gives a grant back that was lost by the closing. Never rejects: resolves to the error, where there is one. */
  protected abstract abandon(holding: Holding): Promise<unknown>;
  protected abstract closeConnections(): void;

  protected get releaseLimit(): number {
    return this.options.releaseTimeout ?? 2000;
  }

  /** When an acquire, or an adoption, that begins now has to be answered. */
  limitOf({ wait }: Wish): number {
    return now() + Math.max(wait, this.options.tryTimeout ?? 1000);
  }

  mustBeOpen(): void {
    if (this.#closing) throw new LockMisuse("the locks are closed");
  }

  /** Runs a call that the user's signal, and the closing of the locks, end early. */
  async stoppable<T>(signal: AbortSignal | undefined, call: (stop: Stop) => Promise<T>): Promise<T> {
    this.mustBeOpen();
    const stop = new Stop(signal);
    this.#pending.add(stop);
    try {
      stop.throwIfStopped();
      const running = call(stop);
      this.inBackground(running);
      return await running;
    } finally {
      stop.end();
      this.#pending.delete(stop);
    }
  }

  /** Ends within its limit, whatever the server does. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Work that `close` waits for. */
  inBackground(task: Promise<unknown>): void {
    this.#background.add(task);
    const done = (): boolean => this.#background.delete(task);
    task.then(done, done);
  }

  /** Errors of the user's listeners break nothing here. */
  guard(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      queueMicrotask(() => { throw error; });
    }
  }

  tell(event: LockEvent): void {
    const { onEvent } = this.options;
    if (onEvent) this.guard(() => onEvent(event));
    if (channel.hasSubscribers) channel.publish(event);
  }

  /** Tells what comes of an acquire. */
  async acquiring(key: string, acquire: () => Promise<Grant>): Promise<Grant> {
    const start = now();
    try {
      const grant = await acquire();
      this.tell({ type: "acquired", key, owner: grant.owner, ms: now() - start });
      return grant;
    } catch (error) {
      this.tell({ type: error instanceof LockBusy ? "busy" : "refused", key, ms: now() - start, error });
      throw error;
    }
  }

  unheard(holding: Holding, error: unknown): void {
    this.tell({ type: "unheard", key: holding.name, owner: holding.owner, error });
  }

  /** A grant that counts from here on. */
  protected hold(holding: Holding): void {
    this.#holdings.add(holding);
    holding.onLost((error) => {
      if (!this.isClosing) this.#lost(holding, error);
    });
    holding.whenEnded(() => this.#holdings.delete(holding));
    if (this.isClosing) this.#end(holding); // it came in that moment
  }

  /** This grant, where it is held here. */
  held(name: string, owner: string, token: number): Holding | undefined {
    for (const it of this.#holdings) if (it.token === token && it.owner === owner && it.name === name) return it;
    return undefined;
  }

  /** Tells of the release of a grant, with all its holds, and of the loss that it has found. */
  protected tellRelease(holding: Holding, error?: unknown): void {
    const { name, owner, since } = holding;
    const ms = now() - since;
    if (error instanceof LockLost) this.#lost(holding, error);
    this.tell({ type: "released", key: name, owner, ms, ...(error !== undefined && { error }) });
  }

  #lost({ name, owner }: Holding, error: LockLost): void {
    this.tell({ type: "lost", key: name, owner, error });
  }

  #end(holding: Holding): void {
    holding.lose("the locks were closed");
    this.inBackground(this.abandon(holding).then((error) => this.tellRelease(holding, error)));
  }

  async #close(): Promise<void> {
    await Promise.resolve(); // `mustBeOpen` is false from here on
    const reason = new DOMException("the locks were closed", "AbortError");
    for (const stop of this.#pending) stop.stop(reason);
    this.isClosing = true;
    for (const holding of [...this.#holdings]) this.#end(holding);
    const until = now() + (this.options.closeTimeout ?? 2000);
    while (this.#background.size > 0 && now() < until) {
      await new Stop().race(Promise.allSettled(this.#background), until).catch(() => {});
    }
    this.closeConnections();
  }
}
