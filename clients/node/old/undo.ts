/** What takes back what a call may have left, when nobody hears its answer. */

import type { Words } from "./driver.ts";
import { LockError, LockLost, LockUnavailable, ServerReply, meaning } from "./errors.ts";
import type { Common } from "./holding.ts";
import { Ask, type Servers } from "./servers.ts";
import { Stop } from "./stop.ts";

/** Who has asked. */
export interface Asker {
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  /** Whether the owner comes back by this name whatever becomes of the call. */
  readonly isNamed: boolean;
}

/** Whether it is open what a call that ended so has done. */
export function isOpen(error: unknown): boolean {
  return !(error instanceof LockError) || error instanceof LockUnavailable;
}

/** Whether a call that ended so may have been carried out: a refusal says nothing of an earlier sending. */
export function mayHaveBeen(ask: Ask, error: unknown): boolean {
  return ask.sentOn !== undefined && (isOpen(error) || (ask.repeated && !(error instanceof LockLost)));
}

/**
 * Gives back the grant with this token; without one all that the owner has, and its waits. What `asked` may have left is
 * not kept on. True where it was answered, so that no release comes later. Never rejects.
 *
 * For an owner with a name it is sent once, behind the call and before the owner's next one, which waits for this: a second
 * one might meet a grant that the owner has by then.
 */
export async function takeBack(servers: Servers, asker: Asker, token: number | undefined, until: number, asked = new Ask()): Promise<boolean> {
  const { key, name, owner, isNamed } = asker;
  const words: Words = ["LOCK.RELEASE", key, owner, ...(token === undefined ? ["ALL"] : ["HOLDS", 0, "TOKEN", token])];
  if (isNamed) return sendOnce(servers, { key, owner, token, keptOn: undefined }, words, asked);
  const release = new Ask();
  const error = await say(servers, name, words, until, asked, release);
  return !release.repeated && (error === undefined || !isOpen(error));
}

/** Sends a release that can be repeated. Resolves to the error, where there is one; then what `asked` may have left is not kept on. */
export async function say(servers: Servers, name: string, words: Words, until: number, asked: Ask, release = new Ask(),
  common?: Common): Promise<unknown> {
  try {
    await servers.ask(words[1] as string, words, { kind: "release", name, until, stop: new Stop(), common }, release);
    return undefined;
  } catch (error) {
    if (!(error instanceof LockLost)) asked.endKeeping();
    return error instanceof LockLost && release.repeated ? undefined : error;
  }
}

/**
 * On the connection that kept it last, or behind a look on the same one: not at all where somebody else keeps it. True where
 * no release comes later.
 */
export async function sendOnce(servers: Servers, common: Common, words: Words, asked: Ask): Promise<boolean> {
  const { sentOn } = asked;
  try {
    const { keeper } = sentOn ?? (await servers.of(common.key));
    const line = sentOn?.line.open ? sentOn.line : keeper.present;
    if (!line) return false; // what may be held ends with its lease
    if (line !== common.keptOn && (await keeper.isKeptElsewhere(common, line))) return true;
    await line.send(words);
    return true;
  } catch (error) {
    if (error instanceof ServerReply && meaning(error.message, "release") !== "lost") asked.endKeeping();
    return error instanceof ServerReply;
  }
}
