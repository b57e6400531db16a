package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const versionPackage = "github.com/fedsim/fedsim/internal/version"

// build compiles the commands for each platform. Settings of this machine that would change the bytes are set.
func (r *release) build() error {
	flags := fmt.Sprintf("-s -w -buildid= -X %s.revision=%s", versionPackage, r.revision)
	if r.modified {
		flags += fmt.Sprintf(" -X %s.modified=true", versionPackage)
	}
	for _, p := range r.platforms {
		dir := filepath.Join(r.scratch, p.os+"-"+p.arch)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT="}
		args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", dir + string(filepath.Separator)}
		for _, name := range names {
			args = append(args, "./cmd/"+name)
		}
		if _, err := r.outputWith(env, "go", args...); err != nil {
			return err
		}
		r.commands[p] = dir
	}
	return nil
}

// command returns the file of a built command, and its name.
func (r *release) command(p platform, name string) (path, file string) {
	file = name
	if p.os == "windows" {
		file += ".exe"
	}
	return filepath.Join(r.commands[p], file), file
}

// makePages has the commands of this platform print their manual pages and completions.
func (r *release) makePages() error {
	host := platform{runtime.GOOS, runtime.GOARCH}
	if r.commands[host] == "" {
		return fmt.Errorf("a release is made on one of its platforms, and %s/%s is none", host.os, host.arch)
	}
	for _, name := range names {
		path, _ := r.command(host, name)
		for _, page := range []struct {
			to   string
			args []string
		}{
			{"man/" + name + ".1", []string{"man"}},
			{"completion/" + name + ".bash", []string{"completion", "bash"}},
			{"completion/_" + name, []string{"completion", "zsh"}},
			{"completion/" + name + ".fish", []string{"completion", "fish"}},
		} {
			text, err := r.output(path, page.args...)
			if err != nil {
				return err
			}
			r.pages = append(r.pages, entry{page.to, 0o644, []byte(text + "\n")})
		}
	}
	return nil
}
