/** One place in a server's line. */

import type { Words } from "./driver.ts";
import { LockUnavailable, NoReply, ServerReply } from "./errors.ts";
import type { Keeper } from "./keeper.ts";
import type { Line } from "./line.ts";
import { grantOf, type GrantReply } from "./replies.ts";
import type { Servers } from "./servers.ts";
import { Stop, TimeUp } from "./stop.ts";
import { now } from "./time.ts";
import type { WaitPool } from "./wait-pool.ts";

/** The longest BLOCK of the server: ten years. What is longer is for ever. */
const LONGEST_BLOCK = 10 * 365 * 86_400_000;

export interface Place {
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  /** LOCK.ACQUIRE, without BLOCK. */
  readonly words: Words;
  /** When the time to wait is over; Infinity: never. */
  readonly until: number;
  /** When there has to be an answer. */
  readonly limit: number;
  /** So many replicas have to acknowledge the grant. */
  readonly replicas: number;
}

/** What a wait was granted, when it was sent, and the keeper at that server. */
export interface Waited {
  readonly grant: GrantReply;
  readonly sent: number;
  readonly keeper: Keeper;
}

/**
 * Waits once, on a connection of its own. Gives the grant, or nothing when the time is over; rejects with
 * ServerReply or NoReply, and when it was stopped with the reason: then neither a wait nor a grant is left.
 */
export async function waitInLine(servers: Servers, place: Place, stop: Stop,
  background: (task: Promise<unknown>) => void): Promise<Waited | undefined> {
  const { reply } = servers;
  const { keeper, waits } = await stop.race(servers.of(place.key), place.limit + reply);
  const line = await takeFrom(waits, place.limit + reply, stop);
  const left = Math.max(0, place.until - now());
  const isForEver = left > LONGEST_BLOCK;
  const block = isForEver ? ["BLOCK", 0] : left > 0 ? ["BLOCK", Math.ceil(left)] : [];
  // A connection that was idle may be dead without a sign: the PING is answered before the wait begins, or it is closed.
  if (!line.wasHeard) line.send(["PING"]).catch(() => {});
  const isOver = keeper.attend();
  const sent = now();
  const granted = line.sendPatiently([...place.words, ...block] as unknown as Words);
  try {
    const grant = grantOf(await stop.race(granted, isForEver ? Infinity : now() + left + reply));
    if (grant && place.replicas > 0) await acknowledged(line, place, reply, stop);
    waits.give(line);
    return grant && { grant, sent, keeper };
  } catch (error) {
    if (error instanceof ServerReply) {
      if (error.isOfReplica) {
        line.close(error.message);
        waits.dropIdle(error.message); // who is the primary now?
      } else {
        waits.give(line);
      }
      throw error;
    }
    if (error instanceof NoReply) throw error;
    const over = callOff(servers, place, line, granted);
    background(over);
    if (error instanceof TimeUp) throw new NoReply("the wait was not answered in time");
    await new Stop().race(over, now() + reply).catch(() => {});
    throw error;
  } finally {
    isOver();
  }
}

async function takeFrom(waits: WaitPool, until: number, stop: Stop): Promise<Line> {
  const idle = waits.takeIdle();
  if (idle) return idle;
  const taking = waits.open();
  try {
    return await stop.race(taking, until);
  } catch (error) {
    taking.then((late) => waits.give(late), () => {});
    throw error instanceof TimeUp ? new NoReply("no connection in time") : error;
  }
}

/** Waits for the replicas; where too few have the grant, it is given back. */
async function acknowledged(line: Line, { name, replicas }: Place, reply: number, stop: Stop): Promise<void> {
  const ms = Math.max(1, Math.floor(reply / 2));
  const have = Number(await stop.race(line.send(["WAIT", replicas, ms]), now() + reply));
  if (have < replicas) {
    throw new LockUnavailable(`${name}: ${have} of ${replicas} replicas have acknowledged it in time`, { key: name });
  }
}

/** Sees to it that the owner neither waits nor holds. */
async function callOff(servers: Servers, { key, name, owner }: Place, line: Line, granted: Promise<unknown>): Promise<void> {
  const release = (): Promise<unknown> => servers.ask(key, ["LOCK.RELEASE", key, owner, "ALL"],
    { kind: "release", name, until: now() + 2 * servers.reply, stop: new Stop() }).catch(() => {});
  const released = release();
  const ended = await new Stop().race(granted, now() + servers.reply).then(
    (reply) => (grantOf(reply) ? "granted" : "ended"),
    (error: unknown) => (error instanceof ServerReply ? "ended" : "unknown"),
  );
  await released;
  if (ended === "unknown") line.close("a wait was called off, and not answered");
  else (await servers.of(key).catch(() => undefined))?.waits.give(line);
  // The wait may have been read after the release.
  if (ended !== "ended") await release();
}
