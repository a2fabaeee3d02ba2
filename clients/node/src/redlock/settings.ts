/** The settings of node-redlock, and the time that they allow. */

/**
 * The settings of node-redlock: as those of a {@link Redlock}, or of one call.
 *
 * @see {@link Redlock} for an example
 */
export interface Settings {
  /** By how much clocks may differ in speed: the `expiration` of a lock is earlier than its end by this part. 0.01. */
  readonly driftFactor: number;
  /** For how many more attempts there is time after the first: 10. -1: without a limit. */
  readonly retryCount: number;
  /** The time between two attempts, in ms: 200. */
  readonly retryDelay: number;
  /** How much longer or shorter that may be by chance, in ms: 100. */
  readonly retryJitter: number;
  /** In ms: 500. It is checked, and not needed otherwise: the server renews the lock of `using`. */
  readonly automaticExtensionThreshold: number;
}

const DEFAULTS: Settings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** The given settings that are numbers; for all others `others`. */
export function settingsOf(given: Partial<Settings> = {}, others: Settings = DEFAULTS): Settings {
  const numbers = Object.entries(given).filter(([name, value]) => name in DEFAULTS && typeof value === "number");
  return { ...others, ...Object.fromEntries(numbers) };
}

/** How many attempts the settings allow. */
export const attemptsOf = ({ retryCount }: Settings): number => (retryCount === -1 ? Infinity : Math.max(0, Math.floor(retryCount)) + 1);

/** The pause between two attempts. */
export const pauseOf = ({ retryDelay, retryJitter }: Settings): number =>
  Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter));

/** How long all attempts together may take, in ms. */
export function windowOf(settings: Settings): number {
  const attempts = attemptsOf(settings);
  return attempts === Infinity ? Infinity : (attempts - 1) * settings.retryDelay;
}
