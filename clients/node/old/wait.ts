/** One place in a server's line. */

import type { Words } from "./driver.ts";
import { LockUnavailable, NoReply, ServerReply } from "./errors.ts";
import type { Keeper } from "./keeper.ts";
import type { Line } from "./line.ts";
import { grantOf, type GrantReply } from "./replies.ts";
import type { Servers } from "./servers.ts";
import { Stop, TimeUp } from "./stop.ts";
import { now } from "./time.ts";
import { type Asker, takeBack } from "./undo.ts";
import type { WaitPool } from "./wait-pool.ts";

/** The longest BLOCK of the server: ten years. What is longer is for ever. */
const LONGEST_BLOCK = 10 * 365 * 86_400_000;

/** What was granted and is not wanted is given so many ms to be given back before the caller is told, though its time is over. */
const LEAST_UNDO = 100;

export interface Place extends Asker {
  /** LOCK.ACQUIRE, without BLOCK. */
  readonly words: Words;
  /** When the time to wait is over; Infinity: never. */
  readonly until: number;
  /** When the whole call is over, whatever has been answered by then. */
  readonly end: number;
  /** So many replicas have to acknowledge the grant. */
  readonly replicas: number;
  /** Called before the call ends where a release of what the owner has may come after that. */
  readonly onLate?: (() => void) | undefined;
  /** Called where the connection has ended: the wait may be granted all the same. */
  readonly onUnanswered?: (() => void) | undefined;
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
  const { end } = place;
  const { keeper, waits } = await stop.race(servers.of(place.key), end);
  const line = await takeFrom(waits, end, stop);
  const left = Math.max(0, place.until - now());
  const isForEver = left > LONGEST_BLOCK;
  const block = isForEver ? ["BLOCK", 0] : left > 0 ? ["BLOCK", Math.ceil(left)] : [];
  // A connection that was idle may be dead without a sign: the PING is answered before the wait begins, or it is closed.
  if (!line.wasHeard) line.send(["PING"]).catch(() => {});
  const isOver = keeper.attend();
  const sent = now();
  /** Whether it is done when the caller has to be told. */
  const told = (undo: Promise<boolean>): Promise<boolean> => {
    background(undo);
    const until = stop.stopped ? Infinity : Math.max(end, now() + LEAST_UNDO);
    return new Stop().race(undo, Math.min(now() + reply, until)).catch(() => false);
  };
  const granted = line.sendPatiently([...place.words, ...block] as unknown as Words);
  let grant: GrantReply | undefined;
  try {
    grant = grantOf(await stop.race(granted, isForEver ? Infinity : Math.min(now() + left + reply, end)));
    if (grant && place.replicas > 0) await acknowledged(line, place, Math.min(now() + reply, end), stop);
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
      if (grant && !(await told(giveBack(servers, place, grant.token)))) {
        place.onLate?.();
        throw new LockUnavailable(`${place.name}: ${error.message}`, { key: place.name, cause: error });
      }
      throw error;
    }
    if (error instanceof NoReply) {
      place.onUnanswered?.();
      throw error;
    }
    const isSilent = error instanceof TimeUp;
    // By the end of an owner's call nothing of its wait may be on its way: the next one may get the same grant.
    if (isSilent && place.isNamed) line.close("a wait was not answered in time");
    if (grant && error instanceof LockUnavailable) waits.give(line);
    else if (grant) line.close("a wait was called off");
    const over = grant ? giveBack(servers, place, grant.token) : callOff(servers, place, line, granted);
    if (isSilent) background(over);
    if (isSilent || !(await told(over))) place.onLate?.();
    throw isSilent ? new LockUnavailable(`${place.name}: the wait was not answered in time`, { key: place.name }) : error;
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

/** Has the replicas acknowledge a grant that the keeper has, by a call that changes nothing more, where it can be waited for. */
export async function acknowledgedAgain(servers: Servers, place: Pick<Place, "key" | "name" | "words" | "replicas" | "end">,
  stop: Stop): Promise<void> {
  const { waits } = await stop.race(servers.of(place.key), place.end);
  const line = await takeFrom(waits, place.end, stop);
  try {
    await stop.race(line.send(place.words), place.end);
    await acknowledged(line, place, Math.min(now() + servers.reply, place.end), stop);
    waits.give(line);
  } catch (error) {
    if (error instanceof ServerReply || error instanceof LockUnavailable) waits.give(line);
    else line.close("an acknowledgement was not waited for");
    throw error;
  }
}

/** Waits for the replicas. Rejects where too few have the grant. */
async function acknowledged(line: Line, { name, replicas }: Pick<Place, "name" | "replicas">, until: number, stop: Stop): Promise<void> {
  const ms = Math.max(1, Math.floor((until - now()) / 2));
  const have = Number(await stop.race(line.send(["WAIT", replicas, ms]), until));
  if (have < replicas) {
    throw new LockUnavailable(`${name}: ${have} of ${replicas} replicas have acknowledged it in time`, { key: name });
  }
}

const giveBack = (servers: Servers, place: Place, token?: number): Promise<boolean> =>
  takeBack(servers, place, token, now() + 2 * servers.reply);

/** Sees to it that the owner neither waits nor holds. True where no release comes later. */
async function callOff(servers: Servers, place: Place, line: Line, granted: Promise<unknown>): Promise<boolean> {
  const released = giveBack(servers, place);
  const ended = await new Stop().race(granted, now() + servers.reply).then(
    (reply) => grantOf(reply)?.token ?? "ended",
    (error: unknown) => (error instanceof ServerReply ? "ended" : "unknown"),
  );
  if (ended === "unknown") line.close("a wait was called off, and not answered");
  const isDone = place.isNamed || (await released);
  if (ended !== "unknown") (await servers.of(place.key).catch(() => undefined))?.waits.give(line);
  // The wait may have been read after the release.
  if (ended === "ended" || (ended === "unknown" && place.isNamed)) return (await released) && isDone;
  const isDoneAgain = await giveBack(servers, place, ended === "unknown" ? undefined : ended);
  return isDone && isDoneAgain;
}
