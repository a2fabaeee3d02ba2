package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.github.redislock.spi.Fault;
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
            String text = entry.get("begins").getAsString() + " and more";
            Fault fault = Fault.reply(text);
            String kind = fault.isPassing() ? "passing" : fault.kind().name().toLowerCase(Locale.ROOT).replace('_', '-');
            assertEquals(entry.get("acquire").getAsString(), kind, text);
            assertEquals(entry.get("move").getAsString(), fault.isGone() ? "lost" : "passing", text);
            boolean isMisuse = kind.equals("deadlock") || kind.equals("not-alone");
            assertEquals(entry.get("release").getAsString(), fault.isGone() ? "lost" : isMisuse ? "misuse" : kind, text);
        }
    }

    @Test
    void theMessageSaysWhatToDo() {
        assertTrue(Fault.reply("WRONGTYPE x").text().contains("SET NX"));
        assertTrue(Fault.reply("NOPERM x").text().contains("the user needs"));
        assertTrue(Fault.reply("ERR unknown command").text().contains("is the module lock"));
    }
}
