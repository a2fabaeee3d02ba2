/** A call about a held lock to all servers at once: renewal, check and release. */

import type { Words } from "../driver.ts";
import { type Kind, LockError, LockLost, LockUnavailable } from "../errors.ts";
import { Stop } from "../stop.ts";
import { now } from "../time.ts";
import { majorityOf, named, tooFew } from "./attempt.ts";
import type { Member } from "./member.ts";
import type { OnVotes, Vote } from "./part.ts";

/** The pause before the servers are asked again, in ms. */
const PAUSE = 50;

/** What all servers are asked. */
export interface Round {
  readonly name: string;
  readonly kind: Kind;
  /** The command for a server that puts this before each key. */
  words(prefix: string): Words;
  /** How long a server may take for an answer, and until when they are asked again. */
  readonly ms: number;
  readonly until: number;
  readonly stop?: Stop;
  /** Ends the calls that go on when a majority has answered. */
  readonly rest?: Stop;
  readonly onVotes?: OnVotes | undefined;
}

/** What they have answered so far. */
interface Tally {
  done: number;
  readonly lost: Map<Member, LockLost>;
  readonly failed: Map<Member, LockError>;
}

/**
 * Has a majority do it, and gives the time at which those that did were asked. Rejects with LockLost where a majority says
 * that the grant is not there, with LockUnavailable where too few answer in time, or with what a majority refuses with.
 */
export async function askAll(members: readonly Member[], round: Round): Promise<number> {
  const { name, kind, until, stop = new Stop() } = round;
  const majority = majorityOf(members);
  for (let isRepeated = false; ; isRepeated = true) {
    const start = now();
    const { done, lost, failed } = await once(members, round, stop);
    const answered = done + lost.size;
    // Repeated, or lost by a few servers only, it is free by now: that is what a release is for.
    if (done >= majority || (kind === "release" && isRepeated && answered >= majority)) return start;
    mayStillBe(members, lost, failed);
    if (kind === "release" && answered >= majority) return start;
    if (now() >= until) throw tooFew(members, failed, name);
    await stop.pause(PAUSE, until);
  }
}

/** Asks every server, and waits until a majority has done it or cannot any more; the rest goes on. */
function once(members: readonly Member[], { name, kind, words, ms, rest, onVotes }: Round, stop: Stop): Promise<Tally> {
  const majority = majorityOf(members);
  const tally: Tally = { done: 0, lost: new Map(), failed: new Map() };
  const calls: Promise<void>[] = [];
  const decided = new Promise<Tally>((resolve) => {
    const look = (): void => {
      const heard = tally.done + tally.lost.size + tally.failed.size;
      if (tally.done >= majority || tally.lost.size > members.length - majority || heard === members.length) resolve(tally);
    };
    for (const member of members) {
      const it = words(member.prefix);
      const call: Promise<unknown> = kind === "release"
        ? member.release(it[1] as string, it[2] as string, { name, ms })
        : member.ask(it, { kind, name, ms, ...(rest && { stop: rest }) });
      calls.push(call.then(
        () => { tally.done += 1; },
        (error: unknown) => {
          if (error instanceof LockLost) tally.lost.set(member, error);
          else tally.failed.set(member, error instanceof LockError ? error : new LockUnavailable(`${name}: no answer`, { cause: error }));
        },
      ).then(look));
    }
  });
  onVotes?.(Promise.all(calls).then(() => members.map((member): Vote => {
    const error = tally.lost.get(member) ?? tally.failed.get(member);
    return { server: member.place, ...(error && { error }) };
  })));
  return stop.race(decided);
}

/** Throws where asking again can change nothing. */
function mayStillBe(members: readonly Member[], lost: ReadonlyMap<Member, LockLost>, failed: ReadonlyMap<Member, LockError>): void {
  const most = members.length - majorityOf(members);
  if (lost.size > most) {
    // Which says most: that somebody else has it.
    const all = [...lost.values()];
    throw all.find(({ message }) => /NOTOWNER|FENCED/.test(message)) ?? all[0] as LockLost;
  }
  const refused = [...failed].filter(([, error]) => !(error instanceof LockUnavailable));
  const [first] = refused;
  if (first && refused.length > most) throw named(first[1], first[0]);
}
