package redislock

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The module is packed as a proxy of modules has it, fetched from there into an empty project, and the first screen
// of the README runs.
func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	server := start(t)
	const module, version = "github.com/redis-lock/redis-lock/clients/go", "v0.2.0"
	proxy := filepath.Join(t.TempDir(), "proxy")
	folder := filepath.Join(proxy, module, "@v")
	mustSay(t, os.MkdirAll(folder, 0o755), nil)
	write := func(path, text string) { t.Helper(); mustSay(t, os.WriteFile(path, []byte(text), 0o644), nil) }
	write(filepath.Join(folder, version+".info"), `{"Version":"`+version+`"}`)
	write(filepath.Join(folder, version+".mod"), string(must[[]byte](t)(os.ReadFile("go.mod"))))
	pack(t, filepath.Join(folder, version+".zip"), module+"@"+version+"/")

	readme := string(must[[]byte](t)(os.ReadFile("README.md")))
	_, program, _ := strings.Cut(readme, "```go\n")
	program, _, _ = strings.Cut(program, "```")
	project := t.TempDir()
	write(filepath.Join(project, "main.go"), strings.ReplaceAll(program, "127.0.0.1:6379", server.address))
	write(filepath.Join(project, "go.mod"), "module example.com/shop\n\ngo 1.26.0\n")
	// In a cache of its own: the module has changed since the last test, and its version has not.
	cache := filepath.Join(t.TempDir(), "modules")
	known := strings.Fields(string(must[[]byte](t)(exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output())))
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.Command("go", arguments...)
		command.Dir = project
		command.Env = append(os.Environ(), "GOMODCACHE="+cache, "GOFLAGS=-mod=mod -modcacherw", "GONOSUMDB=*",
			"GOPROXY=file://"+proxy+",file://"+filepath.Join(known[0], "cache/download")+","+known[1])
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatal(arguments, err, string(output))
		}
		return string(output)
	}
	run("get", module+"@"+version)
	if said := run("run", "."); !strings.HasPrefix(said, "fence writes with 1") {
		t.Fatal(said)
	}
	if server.calls("lock.release") != 1 {
		t.Fatal("not released")
	}
}

func pack(t *testing.T, path, prefix string) {
	t.Helper()
	file := must[*os.File](t)(os.Create(path))
	defer file.Close()
	archive := zip.NewWriter(file)
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == "bin" {
			return filepath.SkipDir
		}
		if entry.IsDir() {
			return nil
		}
		to, err := archive.Create(prefix + filepath.ToSlash(path))
		if err == nil {
			_, err = to.Write(must[[]byte](t)(os.ReadFile(path)))
		}
		return err
	})
	mustSay(t, err, nil)
	mustSay(t, archive.Close(), nil)
}
