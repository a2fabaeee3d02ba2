/** The module: an injectable `Locks`, or several by name. */

import { type DynamicModule, type FactoryProvider, Inject, type InjectionToken, Module, type ModuleMetadata, type Provider,
  type Type } from "@nestjs/common";
import { Locks } from "../locks.ts";
import { type LocksModuleOptions, LocksRunner } from "./runner.ts";

export interface LocksModuleExtras {
  /** For an application with locks on several clients: `@InjectLocks(name)`. */
  readonly name?: string | undefined;
  /** Whether every module can inject the locks: true. */
  readonly isGlobal?: boolean | undefined;
}

/** Makes options, of what else the application has. */
export interface LocksOptionsFactory {
  createLocksOptions(): LocksModuleOptions | Promise<LocksModuleOptions>;
}

export interface LocksModuleAsyncOptions extends LocksModuleExtras, Pick<ModuleMetadata, "imports"> {
  readonly inject?: FactoryProvider["inject"];
  readonly useFactory?: (...injected: any[]) => LocksModuleOptions | Promise<LocksModuleOptions>;
  readonly useClass?: Type<LocksOptionsFactory>;
  readonly useExisting?: InjectionToken<LocksOptionsFactory>;
}

/** What injects these locks: the class `Locks` itself, or a name. */
export const getLocksToken = (name?: string): InjectionToken => (name === undefined ? Locks : `redis-lock-client:${name}`);
export const runnerToken = (name?: string): InjectionToken => (name === undefined ? LocksRunner : `redis-lock-client:${name}:runner`);
const optionsToken = (name?: string): InjectionToken => `redis-lock-client:${name ?? ""}:options`;

/** Injects the locks of this name. Without one, `constructor(private readonly locks: Locks)` does. */
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

export class LocksModule {
  static forRoot({ name, isGlobal, ...options }: LocksModuleOptions & LocksModuleExtras): DynamicModule {
    return moduleOf({ name, isGlobal }, [{ provide: optionsToken(name), useValue: options }]);
  }

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
