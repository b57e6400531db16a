// Command mutants plants one mistake at a time into the code, without changing a file, and runs the tests that must find it:
//
//	go run -C tools ./mutants            the usual tests
//	go run -C tools ./mutants -short     those of a look
//	go run -C tools ./mutants -root DIR  the tests of another checkout
//
// It ends with 1 if a mistake is not found. -check only says whether each can still be planted.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root := flag.String("root", "..", "checkout whose code and tests are taken")
	short := flag.Bool("short", false, "run the tests with -short")
	check := flag.Bool("check", false, "run no tests")
	only := flag.String("only", "", "plant only mistakes whose name has this in it")
	flag.Parse()
	if err := run(*root, *only, *short, *check); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root, only string, short, check bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is of no use to anybody
	var errs []error
	for _, m := range mutants {
		if !strings.Contains(m.name, only) {
			continue
		}
		overlay, err := m.plant(root, dir)
		if err != nil || check {
			errs = append(errs, err)
			continue
		}
		args := append([]string{"test", "-overlay", overlay, "-count=1"}, m.packages...)
		if short {
			args = append(args, "-short")
		}
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		out, failed := cmd.CombinedOutput()
		found := failing.FindAllStringSubmatch(string(out), -1)
		switch {
		case failed == nil:
			fmt.Printf("NOT FOUND  %s\n", m.name)
			errs = append(errs, fmt.Errorf("%s: not found", m.name))
		case len(found) == 0: // it does not compile
			errs = append(errs, fmt.Errorf("%s: %w\n%s", m.name, failed, out))
		default:
			names := make([]string, 0, 3)
			for _, f := range found[:min(len(found), 3)] {
				names = append(names, f[1])
			}
			fmt.Printf("found      %s: %d, %s\n", m.name, len(found), strings.Join(names, ", "))
		}
	}
	return errors.Join(errs...)
}

var failing = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// plant writes the file with the mistake, and an overlay for the go command.
func (m *mutant) plant(root, dir string) (overlay string, err error) {
	path := filepath.Join(root, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.right); n != 1 {
		return "", fmt.Errorf("%s: %q stands %d times in %s; it must once", m.name, m.right, n, m.file)
	}
	wrong := filepath.Join(dir, "wrong.go")
	if err = os.WriteFile(wrong, []byte(strings.Replace(string(text), m.right, m.wrong, 1)), 0o600); err != nil {
		return "", err
	}
	j, err := json.Marshal(map[string]any{"Replace": map[string]string{path: wrong}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, j, 0o600)
}
