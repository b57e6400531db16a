package main

import (
	"fmt"
	"regexp"
	"strings"
)

// lengths are the lengths of sentences of one kind of text.
type lengths struct {
	kind                   kind
	sentences, words, long int // long have more than longest words
}

const longest = 30

func (l lengths) String() string {
	if l.sentences == 0 {
		return fmt.Sprintf("%s: no sentence", l.kind)
	}
	n := float64(l.sentences)
	return fmt.Sprintf("%s: %d sentences of %.1f words on average, %.1f%% above %d", l.kind, l.sentences, float64(l.words)/n, 100*float64(l.long)/n, longest)
}

var (
	ends    = regexp.MustCompile("[.!?][\"')\\]*_]*(?:\\s+|$)")
	codes   = regexp.MustCompile("`[^`]*`")
	links   = regexp.MustCompile(`\]\([^)]*\)`)
	letters = regexp.MustCompile(`[\pL\pN]`)
)

// measure counts the sentences of all texts of a kind, in paragraphs and list items, without code,
// tables and headings.
func measure(k kind, texts []*text) lengths {
	l := lengths{kind: k}
	for _, t := range texts {
		if t.kind != k || t.file == "CHANGELOG.md" {
			continue
		}
		for _, p := range paragraphs(t) {
			for _, s := range ends.Split(p, -1) {
				n := 0
				for _, w := range strings.Fields(s) {
					if letters.MatchString(w) {
						n++
					}
				}
				if n < 3 {
					continue
				}
				l.sentences++
				l.words += n
				if n > longest {
					l.long++
				}
			}
		}
	}
	return l
}

// paragraphs joins the lines of a text to paragraphs.
func paragraphs(t *text) []string {
	var list []string
	var now []string
	flush := func() {
		if len(now) > 0 {
			list = append(list, strings.Join(now, " "))
		}
		now = nil
	}
	fenced := false
	for _, l := range t.lines {
		s := strings.TrimSpace(l.text)
		switch {
		case strings.HasPrefix(s, "```"):
			fenced = !fenced
			flush()
		case fenced:
		case s == "", strings.HasPrefix(s, "#"), strings.HasPrefix(s, "|"), strings.HasPrefix(l.text, "    "), strings.HasPrefix(l.text, "\t"):
			flush()
		case strings.HasPrefix(s, "- "), strings.HasPrefix(s, "* "):
			flush()
			fallthrough
		default:
			s = codes.ReplaceAllString(s, "code")
			now = append(now, links.ReplaceAllString(s, "]"))
		}
	}
	flush()
	return list
}
