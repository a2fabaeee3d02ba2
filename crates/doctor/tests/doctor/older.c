/* A module that calls itself lock, of version 0.1.0. */
int RedisModule_OnLoad(void *context) {
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))context;
    int (*set_attributes)(void *, const char *, int, int);
    get("RedisModule_SetModuleAttribs", &set_attributes);
    set_attributes(context, "lock", 100, 1);
    return 0;
}
