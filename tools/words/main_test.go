package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each rule is broken once in a comment, a message or a page, and a text that keeps them all has no alert.
func TestRules(t *testing.T) {
	bad := map[string]string{
		"Clause":      "What is sent is small.",
		"Copula":      "Metrics are those after each round.",
		"Pronoun":     "The bound exceeds that of the release.",
		"Role":        "The secret is known to nobody.",
		"Preposition": "The server keeps a list, of which the client has a part.",
		"Zero":        "The share is .5 of the budget.",
		"Idiom":       "A message has at the most two parts.",
		"Headless":    "So does the server.",
		"Implements":  "About implements algorithm.Algorithm.",
		"Long":        strings.Repeat("many words ", 20) + "follow.",
	}
	dir := t.TempDir()
	var texts []*text
	for rule, s := range bad {
		name := filepath.Join(dir, rule+".go")
		if err := os.WriteFile(name, []byte("package p\n\n// "+s+"\nvar x int\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := ofGo(name, rule)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, found...)
	}
	good := &text{kind: messages, file: "good"}
	good.add("Metrics holds one entry per round, each at most 0.5; a client that drops out is counted.", 7)
	alerts, err := check(filepath.Join("..", ".."), append(texts, good))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range alerts {
		seen[a.file] = seen[a.file] || a.rule == a.file && a.line == 3
		if a.file == "good" {
			t.Errorf("%+v", a)
		}
	}
	for rule := range bad {
		if !seen[rule] {
			t.Errorf("no alert of %s at its line: %v", rule, alerts)
		}
	}
}

// Strings are messages if they have four words; added strings are one; indented lines stand alone; calls of a command and test files have none.
func TestMessages(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.go")
	source := "package p\n\nimport \"fmt\"\n\nvar a = fmt.Errorf(\"four words are \" +\n\t\"a message %d\", 1)\nvar b = \"too few\"\nvar c = `<p>some words in markup</p>`\n" +
		"var d = \"fedsim data ids ratings.csv --of items\"\nvar e = `First\nsteps:\n  run it now\n`\nvar f = `fedsim run --epsilon 1\nfedsim run --epsilon 2 again\n`\n"
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"a.go": "Four words are a message %s.|First steps:.|Run it now.|Fedsim run --epsilon 1.|Run --epsilon 2 again.", "a_test.go": ""} {
		found, err := ofGo(name, file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range found {
			for _, l := range x.lines {
				if x.kind == messages && l.text != "" {
					got = append(got, l.text)
				}
			}
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// Lengths by hand: sentences of 4 and 6 words, and a list item of 3; code and headings do not count.
func TestMeasure(t *testing.T) {
	page := &text{kind: pages, file: "a.md"}
	page.add("# A heading of many words\n\nOne two three four. Five six\nseven eight `nine ten` eleven!\n\n- twelve thirteen fourteen\n\n```\ncode is no sentence\n```", 1)
	if got := measure(pages, []*text{page}); got.sentences != 3 || got.words != 13 || got.long != 0 {
		t.Errorf("%+v", got)
	}
}
