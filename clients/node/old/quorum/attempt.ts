/** One attempt to take a lock: ask all servers, lift the grants of a majority to one token. */

import { LockError, LockRefused, LockUnavailable } from "../errors.ts";
import { Stop, TimeUp } from "../stop.ts";
import { now } from "../time.ts";
import type { Member } from "./member.ts";
import { type AttemptRequest, Part, type Vote } from "./part.ts";

/** After the grants of a majority the others are waited for as long again, and at least so long, in ms. */
const LEAST_GRACE = 50;

/** Why an attempt did not get the lock. */
export type Failure =
  /** Others have it; the first server that has not granted it here. */
  | { readonly why: "busy"; readonly first: Member }
  /** A grant was gone, or the lease over, before the others were there. */
  | { readonly why: "late" }
  /** Too few servers answer. */
  | { readonly why: "too few"; readonly error: LockUnavailable }
  /** It would be the same again. */
  | { readonly why: "refused"; readonly error: LockError };

/** Ends what a call about a lock has left under way when a majority had answered: it is not sent behind the next one. */
export type Rest = (next: "renewal" | "release") => void;

/** What a successful attempt got. */
export interface Obtained {
  readonly token: number;
  /** When the leases began, at the earliest. */
  readonly start: number;
  readonly rest: Rest;
}

export const majorityOf = (members: readonly unknown[]): number => Math.floor(members.length / 2) + 1;

export class Attempt {
  readonly #members: readonly Member[];
  readonly #request: AttemptRequest;
  readonly #parts: readonly Part[];
  readonly #start = now();
  #wake: () => void = () => {};

  /** Asks all servers at once that are not known to be down. */
  constructor(members: readonly Member[], request: AttemptRequest) {
    this.#members = members;
    this.#request = request;
    const up = members.filter((member) => !member.down);
    const isEnough = up.length >= majorityOf(members);
    this.#parts = isEnough ? up.map((member) => new Part(member, request, () => this.#wake())) : [];
  }

  /** Both rounds. Rejects with what stopped it. When it is done, servers that are not needed are being told. */
  async finish(stop: Stop): Promise<Obtained | Failure> {
    let token: number | undefined;
    try {
      const result = (await this.#gather(stop)) ?? (await this.#lift(stop));
      if ("token" in result) token = result.token;
      return result;
    } catch (error) {
      for (const part of this.#parts) part.halt();
      throw error;
    } finally {
      for (const part of this.#parts) void (token === undefined ? part.giveUp() : part.keep(token));
    }
  }

  /** When all servers have been told, or have been given up. */
  async settled(): Promise<void> {
    await Promise.all(this.#parts.map(({ answered }) => answered));
  }

  /** What the servers have said, when each one has been heard, or its time is over. */
  async votes(): Promise<readonly Vote[]> {
    await this.settled();
    const asked = new Map(this.#parts.map((part) => [part.member, part]));
    return this.#members.map((member) => {
      const error = member.down ?? new LockUnavailable(`${this.#request.name}: not asked, as too few others answer`);
      return asked.get(member)?.vote ?? { server: member.place, error };
    });
  }

  get #majority(): number {
    return majorityOf(this.#members);
  }

  #endRest(next: "renewal" | "release"): void {
    for (const part of this.#parts) {
      if (next === "renewal") part.leave();
      else part.halt();
    }
  }

  /** The grants, in the order of the servers. */
  get #granted(): Part[] {
    return this.#parts.filter(({ token }) => token !== undefined);
  }

  /** Round 1. */
  async #gather(stop: Stop): Promise<Failure | undefined> {
    let enough = Infinity;
    for (;;) {
      stop.throwIfStopped();
      const granted = this.#granted.length;
      const unheard = this.#parts.filter(({ isHeard }) => !isHeard).length;
      if (granted + unheard < this.#majority && !this.#mayBeTooFew) return this.#failure();
      if (enough === Infinity && granted >= this.#majority) enough = now() + Math.max(LEAST_GRACE, now() - this.#start);
      if (unheard === 0 || now() >= enough) return undefined;
      await this.#change(stop, enough);
    }
  }

  /** Round 2: where the token is too far ahead for a majority, without the servers whose clock gave it. */
  async #lift(stop: Stop): Promise<Obtained | Failure> {
    let chosen = this.#granted;
    for (;;) {
      const token = Math.max(...chosen.map((part) => part.token ?? 0));
      const start = now();
      for (const part of this.#parts) part.raise(token);
      for (;;) {
        stop.throwIfStopped();
        const lifted = this.#parts.filter(({ raised }) => raised === token);
        if (lifted.length >= this.#majority) return { token, start, rest: (next) => this.#endRest(next) };
        if (chosen.every((part) => part.isDecided(token))) {
          const behind = this.#parts.filter((part) => part.isBehind(token)); // also of those that came late
          if (behind.length >= this.#majority) {
            chosen = behind;
            break;
          }
          // Those that are late may yet make a majority.
          if (this.#isAllSaid(token)) {
            return behind.length === 0 ? this.#failure() : { why: "refused", error: this.#tooFarApart(behind, token) };
          }
        }
        await this.#change(stop);
      }
    }
  }

  /** Whether it hangs on servers that have yet to answer that a majority can be used. */
  get #mayBeTooFew(): boolean {
    const usable = this.#parts.filter(({ error, member }) => !error && !member.down);
    return usable.length >= this.#majority && usable.filter(({ isHeard }) => isHeard).length < this.#majority;
  }

  /** Whether no server can say any more that it stands at this token, or is behind it. */
  #isAllSaid(token: number): boolean {
    return this.#parts.every((part) => part.isHeard && (part.token === undefined || part.token > token || part.isDecided(token)));
  }

  #change(stop: Stop, until = Infinity): Promise<void> {
    const changed = new Promise<void>((resolve) => { this.#wake = resolve; });
    return stop.race(changed, until).catch((error: unknown) => {
      if (!(error instanceof TimeUp)) throw error;
    });
  }

  #failure(): Failure {
    const failed = this.#parts.filter(({ error }) => error);
    const refused = failed.filter(({ error }) => !(error instanceof LockUnavailable));
    const [first] = refused;
    if (first?.error && refused.length > this.#members.length - this.#majority) {
      return { why: "refused", error: named(first.error, first.member) };
    }
    const usable = this.#members.filter((member) => !member.down && !failed.some((part) => part.member === member));
    if (usable.length < this.#majority) {
      const why = new Map(failed.map(({ member, error }) => [member, error]));
      return { why: "too few", error: tooFew(this.#members, why, this.#request.name) };
    }
    // Which servers said no is chance; that all go to the same line is what makes it one.
    const granted = new Set(this.#granted.map(({ member }) => member));
    const free = usable.find((member) => !granted.has(member));
    return free && this.#parts.some(({ isBusy }) => isBusy) ? { why: "busy", first: free } : { why: "late" };
  }

  #tooFarApart(behind: readonly Part[], token: number): LockRefused {
    const furthest = this.#granted.filter((part) => part.token === token);
    const names = (parts: readonly Part[]): string => parts.map(({ member }) => member.address).join(" and ");
    const { name } = this.#request;
    return new LockRefused(`${name}: AHEAD the clock of ${names(behind)} is too far behind that of ${names(furthest)}, `
      + "and there is no majority without them", { key: name });
  }
}

/** Tells which servers did not answer, and why. */
export function tooFew(members: readonly Member[], failed: ReadonlyMap<Member, LockError | undefined>, name: string): LockUnavailable {
  const why = members.flatMap((member) => {
    const error = failed.get(member) ?? member.down;
    return error ? [{ error, text: `${member.address}: ${reasonOf(error)}` }] : [];
  });
  const text = `${members.length - why.length} of ${members.length} servers can be used, and it takes ${majorityOf(members)}`;
  return new LockUnavailable(`${name}: ${text}; ${why.map((it) => it.text).join("; ")}`, { key: name, cause: why[0]?.error });
}

/** The error, with the server that gave it. */
export function named(error: LockError, member: Member): LockError {
  const { constructor: kind } = error as { constructor: unknown };
  return new (kind as typeof LockError)(`${error.message} (${member.address})`, { key: error.key, cause: error.cause });
}

function reasonOf(error: LockError): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}
