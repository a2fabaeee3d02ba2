package bed

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Client is the module of the client.
const Client = "github.com/redis-lock/redis-lock/clients/go"

// RunReadme packs modules as a proxy of modules has them (the first one is what is wanted), gets them from there into
// an empty project, and runs the first program of a README in it, at this server. It gives what that prints.
func RunReadme(t *testing.T, readme, address string, modules ...string) string {
	t.Helper()
	// Another version each time: Go takes one that it has for the same.
	version := fmt.Sprint("v0.3.0-test.", time.Now().UnixNano())
	proxy, project := filepath.Join(t.TempDir(), "proxy"), t.TempDir()
	for _, module := range modules {
		folder := filepath.Join(proxy, module, "@v")
		must(t, os.MkdirAll(folder, 0o755))
		from := Folder(strings.TrimPrefix(strings.TrimPrefix(module, Client), "/"))
		write(t, filepath.Join(folder, version+".info"), `{"Version":"`+version+`"}`)
		needs := strings.ReplaceAll(read(t, filepath.Join(from, "go.mod")), Client+" v0.3.0", Client+" "+version)
		write(t, filepath.Join(folder, version+".mod"), needs)
		pack(t, from, filepath.Join(folder, version+".zip"), module+"@"+version+"/", needs)
	}
	_, program, _ := strings.Cut(read(t, readme), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	write(t, filepath.Join(project, "main.go"), strings.ReplaceAll(program, "127.0.0.1:6379", address))
	write(t, filepath.Join(project, "go.mod"), "module example.com/shop\n\ngo 1.26.0\n")

	known, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	must(t, err)
	before := strings.Fields(string(known))
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.Command("go", arguments...)
		command.Dir = project
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod -modcacherw", "GONOSUMDB=*",
			"GOPROXY=file://"+proxy+",file://"+filepath.Join(before[0], "cache/download")+","+before[1])
		var said strings.Builder
		command.Stderr = &said // what is fetched, too
		output, err := command.Output()
		if err != nil {
			t.Fatal(arguments, err, string(output), said.String())
		}
		return string(output)
	}
	wanted := []string{"get"}
	for _, module := range modules {
		wanted = append(wanted, module+"@"+version)
		t.Cleanup(func() { // of the cache that all have
			must(t, os.RemoveAll(filepath.Join(before[0], module+"@"+version)))
			for _, kind := range []string{"info", "mod", "zip", "ziphash", "lock"} {
				_ = os.Remove(filepath.Join(before[0], "cache/download", module, "@v", version+"."+kind))
			}
		})
	}
	run(wanted...)
	return run("run", ".")
}

// Folder is one below clients/go.
func Folder(name string) string { return filepath.Join(here(), "..", "..", name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// pack makes the file of a module: all that is in its folder, but for other modules.
func pack(t *testing.T, folder, path, prefix, needs string) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	archive := zip.NewWriter(file)
	must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); entry.Name() == "bin" || path != folder && err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		to, err := archive.Create(prefix + filepath.ToSlash(name))
		if err == nil {
			text := needs
			if name != "go.mod" {
				text = read(t, path)
			}
			_, err = to.Write([]byte(text))
		}
		return err
	}))
	must(t, archive.Close())
}
