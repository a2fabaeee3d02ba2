package redislock

import (
	"strings"
	"testing"

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
)

// The module is packed as a proxy of modules has it, fetched from there into an empty project, and the first screen
// of the README runs.
func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	s := start(t)
	if said := bed.RunReadme(t, "README.md", s.Address, bed.Client); !strings.HasPrefix(said, "fence writes with 1") {
		t.Fatal(said)
	}
	if !strings.Contains(s.run("INFO commandstats").(string), "cmdstat_lock.release:calls=1,") {
		t.Fatal("not released")
	}
}
