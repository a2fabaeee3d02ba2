package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Goes through clients/protocol/errors.json. */
class ErrorsTest {
    @Test
    void eachReplyMeansWhatTheTableSays() throws Exception {
        String table = Files.readString(Path.of("../protocol/errors.json"));
        List<JsonElement> entries = new Gson().fromJson(table, JsonObject.class).getAsJsonArray("errors").asList();
        assertTrue(entries.size() > 20);
        for (JsonElement one : entries) {
            JsonObject entry = one.getAsJsonObject();
            String reply = entry.get("begins").getAsString() + " and more";
            for (Meaning.Kind kind : Meaning.Kind.values()) {
                String wanted = entry.get(kind.name().toLowerCase(Locale.ROOT)).getAsString();
                assertEquals(wanted.toUpperCase(Locale.ROOT).replace('-', '_'), Meaning.of(reply, kind).name(), reply);
            }
        }
    }
}
