// Words checks the English of comments, messages and pages by the rules in .vale/styles:
//
//	go run -C tools ./words [-list PREFIX] [-update]
//
// It fails when a folder has more alerts than left.txt allows it, or when sentences are
// longer than the limits of this program. With -list it prints the alerts of the files whose
// paths begin with the prefix. With -update it lowers the numbers in left.txt.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
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
	prefix := flag.String("list", "", "print the alerts of files whose paths begin with `PREFIX`; . for all")
	update := flag.Bool("update", false, "lower the numbers in left.txt to what is found")
	flag.Parse()
	if err := run("..", filepath.Join("words", "left.txt"), *prefix, *update); err != nil {
		log.Fatal(err)
	}
}

func run(root, left, prefix string, update bool) error {
	texts, err := extract(root)
	if err != nil {
		return err
	}
	alerts, err := check(root, texts)
	if err != nil {
		return err
	}
	found := make(map[string]int)
	for _, a := range alerts {
		found[path.Dir(a.file)]++
		if prefix != "" && (prefix == "." || strings.HasPrefix(a.file, prefix)) {
			fmt.Printf("%s:%d: %s (%s)\n", a.file, a.line, a.message, a.rule)
		}
	}
	var tooLong error
	for _, k := range []kind{comments, messages, pages} {
		l := measure(k, texts)
		if fmt.Println(l); l.long*20 > l.sentences {
			tooLong = errors.Join(tooLong, fmt.Errorf("%s: more than 5%% of the sentences are too long", k))
		}
	}
	fmt.Printf("%d alerts\n", len(alerts))
	return errors.Join(tooLong, compare(found, left, update))
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

// compare returns an error if a folder has more alerts than the file allows it.
func compare(found map[string]int, file string, update bool) error {
	allowed, err := readLeft(file)
	if err != nil {
		return err
	}
	var more []error
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if n := found[dir]; n > allowed[dir] {
			more = append(more, fmt.Errorf("%s: %d alerts, %d are allowed: go run -C tools ./words -list %s", dir, n, allowed[dir], dir))
		}
	}
	if len(more) > 0 || !update {
		return errors.Join(more...)
	}
	var b bytes.Buffer
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintln(&b, dir, found[dir])
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// readLeft reads how many alerts each folder may still have.
func readLeft(file string) (map[string]int, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	allowed := make(map[string]int)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		dir, count, ok := strings.Cut(lines.Text(), " ")
		n, failed := strconv.Atoi(count)
		if !ok || failed != nil {
			return nil, fmt.Errorf("%s: %q is no folder and number", file, lines.Text())
		}
		allowed[dir] = n
	}
	return allowed, nil
}
