/** The module: an injectable `Locks`, or several by name. */

import { type DynamicModule, type FactoryProvider, Inject, type InjectionToken, Module, type ModuleMetadata, type Provider,
  type Type } from "@nestjs/common";
import { Locks } from "../locks.ts";
import { type LocksModuleOptions, LocksRunner } from "./runner.ts";

/**
 * How the locks are injected.
 *
 * @see {@link InjectLocks} for an example
 */
export interface LocksModuleExtras {
  /** For an application with locks on several clients: `@InjectLocks(name)`. */
  readonly name?: string | undefined;
  /** Whether every module can inject the locks: true. */
  readonly isGlobal?: boolean | undefined;
}

/**
 * Makes the options, perhaps from other providers of the application.
 *
 * @see {@link LocksModuleAsyncOptions} for an example
 */
export interface LocksOptionsFactory {
  /** Nest calls this once, when the application starts. */
  createLocksOptions(): LocksModuleOptions | Promise<LocksModuleOptions>;
}

/**
 * How the options are made: one of `useFactory`, `useClass` and `useExisting`.
 *
 * @example
 * ```ts
 * import { Injectable } from "@nestjs/common";
 * import { Redis } from "ioredis";
 * import { LocksModule, type LocksModuleOptions, type LocksOptionsFactory } from "redis-lock-client/nestjs";
 *
 * @Injectable()
 * class LocksConfig implements LocksOptionsFactory {
 *   createLocksOptions(): LocksModuleOptions {
 *     return { client: new Redis(process.env["REDIS"] ?? "redis://redis:6379"), service: "shop", closeClient: true };
 *   }
 * }
 * const byClass = LocksModule.forRootAsync({ useClass: LocksConfig });
 * const byFunction = LocksModule.forRootAsync({ inject: [Redis], useFactory: (client: Redis) => ({ client }) });
 * ```
 */
export interface LocksModuleAsyncOptions extends LocksModuleExtras, Pick<ModuleMetadata, "imports"> {
  /** The tokens of the providers that `useFactory` is called with. */
  readonly inject?: FactoryProvider["inject"];
  /** Makes the options. */
  readonly useFactory?: (...injected: any[]) => LocksModuleOptions | Promise<LocksModuleOptions>;
  /** A class that Nest instantiates, and that makes the options. */
  readonly useClass?: Type<LocksOptionsFactory>;
  /** The token of a provider of the application that makes the options. */
  readonly useExisting?: InjectionToken<LocksOptionsFactory>;
}

/**
 * The token that injects these locks: the class `Locks` itself, or a name. For tests that replace them.
 *
 * @example
 * ```ts
 * import { Test } from "@nestjs/testing";
 * import { Locks } from "redis-lock-client";
 * import { getLocksToken } from "redis-lock-client/nestjs";
 * import { TestServer } from "redis-lock-client/testing";
 *
 * const app = Test.createTestingModule({ imports: [AppModule] })
 *   .overrideProvider(getLocksToken()).useValue(new Locks(new TestServer()));
 * ```
 */
export const getLocksToken = (name?: string): InjectionToken => (name === undefined ? Locks : `redis-lock-client:${name}`);
export const runnerToken = (name?: string): InjectionToken => (name === undefined ? LocksRunner : `redis-lock-client:${name}:runner`);
const optionsToken = (name?: string): InjectionToken => `redis-lock-client:${name ?? ""}:options`;

/**
 * Injects the locks of this name. Without one, `constructor(private readonly locks: Locks)` does.
 *
 * @example
 * ```ts
 * import { Injectable, Module } from "@nestjs/common";
 * import { Redis } from "ioredis";
 * import { Locks } from "redis-lock-client";
 * import { InjectLocks, LocksModule } from "redis-lock-client/nestjs";
 *
 * @Injectable()
 * class Reports {
 *   constructor(private readonly orders: Locks, @InjectLocks("reports") private readonly reports: Locks) {}
 * }
 *
 * @Module({
 *   imports: [
 *     LocksModule.forRoot({ client: new Redis(6379, "orders") }),
 *     LocksModule.forRoot({ client: new Redis(6379, "reports"), name: "reports" }),
 *   ],
 *   providers: [Reports],
 * })
 * class AppModule {}
 * ```
 */
export const InjectLocks = (name?: string): ReturnType<typeof Inject> => Inject(getLocksToken(name));

function moduleOf({ name, isGlobal = true }: LocksModuleExtras, providers: Provider[], imports: ModuleMetadata["imports"] = []): DynamicModule {
  const options = optionsToken(name), runner = runnerToken(name), locks = getLocksToken(name);
  return {
    module: LocksModule,
    global: isGlobal,
    imports,
    providers: [
      ...providers,
      { provide: runner, inject: [options], useFactory: (given: LocksModuleOptions) => new LocksRunner(given) },
      { provide: locks, inject: [runner], useFactory: (it: LocksRunner) => it.locks },
    ],
    exports: [runner, locks],
  };
}

/**
 * The module: an injectable `Locks`, which ends with the application.
 *
 * @example
 * ```ts
 * import { Module } from "@nestjs/common";
 * import { Redis } from "ioredis";
 * import { LocksModule } from "redis-lock-client/nestjs";
 *
 * @Module({ imports: [LocksModule.forRoot({ client: new Redis(), service: "shop", closeClient: true })] })
 * class AppModule {}
 * ```
 */
export class LocksModule {
  /** With these options. The application does not start with wrong ones. */
  static forRoot({ name, isGlobal, ...options }: LocksModuleOptions & LocksModuleExtras): DynamicModule {
    return moduleOf({ name, isGlobal }, [{ provide: optionsToken(name), useValue: options }]);
  }

  /**
   * With options that are made when the application starts.
   *
   * @throws TypeError without `useFactory`, `useClass` and `useExisting`
   */
  static forRootAsync(options: LocksModuleAsyncOptions): DynamicModule {
    const { imports, inject = [], useFactory, useClass, useExisting, name } = options;
    const provide = optionsToken(name);
    const factory = useClass ?? useExisting;
    const providers: Provider[] = useFactory
      ? [{ provide, inject, useFactory }]
      : factory
        ? [{ provide, inject: [factory], useFactory: (it: LocksOptionsFactory) => it.createLocksOptions() }]
        : [];
    if (providers.length === 0) throw new TypeError("LocksModule.forRootAsync takes useFactory, useClass or useExisting");
    return moduleOf(options, useClass ? [...providers, useClass] : providers, imports ?? []);
  }
}
Module({})(LocksModule);
