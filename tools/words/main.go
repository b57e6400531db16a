// Words checks the English of comments, messages and pages by the rules in .vale/styles:
//
//	go run -C tools ./words [PREFIX]
//
// It prints the alerts of the files whose paths begin with the prefix, of all files by default.
// It fails if there is an alert, or if sentences are longer than the limits of this program.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An alert is a breach of a rule.
type alert struct {
	file, rule, message string
	line                int
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run("..", flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(root, prefix string) error {
	texts, err := extract(root)
	if err != nil {
		return err
	}
	alerts, err := check(root, texts)
	if err != nil {
		return err
	}
	for _, a := range alerts {
		if strings.HasPrefix(a.file, prefix) {
			fmt.Printf("%s:%d: %s (%s)\n", a.file, a.line, a.message, a.rule)
		}
	}
	var failed error
	for _, k := range []kind{comments, messages, pages} {
		l := measure(k, texts)
		if fmt.Println(l); l.long*20 > l.sentences {
			failed = errors.Join(failed, fmt.Errorf("%s: more than 5%% of the sentences are too long", k))
		}
	}
	if len(alerts) > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d alerts", len(alerts)))
	}
	return failed
}

// check has Vale read the texts, in a temporary folder that mirrors the module.
func check(root string, texts []*text) ([]alert, error) {
	dir, err := os.MkdirTemp("", "words")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	byFile := make(map[string]*text)
	for k, t := range texts {
		name := filepath.Join(dir, strconv.Itoa(k)+t.kind.suffix())
		byFile[name] = t
		if err = os.WriteFile(name, t.written(), 0o600); err != nil {
			return nil, err
		}
	}
	config, err := filepath.Abs(filepath.Join(root, ".vale.ini"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "tool", "vale", "--config="+config, "--output=JSON", "--no-exit", dir)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("vale: %w\n%s", err, failure.Bytes())
	}
	var report map[string][]struct {
		Check, Message string
		Line           int
	}
	if err = json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("output of vale: %w\n%.500s", err, out)
	}
	var list []alert
	for name, found := range report {
		t, ok := byFile[name]
		if !ok {
			return nil, fmt.Errorf("vale names a file that it was not given: %s", name)
		}
		for _, f := range found {
			list = append(list, alert{file: t.file, line: t.lineOf(f.Line), rule: strings.TrimPrefix(f.Check, "Fedsim."), message: f.Message})
		}
	}
	slices.SortFunc(list, func(a, b alert) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return list, nil
}
