package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Each command has three examples that it can parse. Only single quotes are special in them.
func TestExamples(t *testing.T) {
	p := program
	parse := func() *kong.Kong {
		parser, err := p.Parser(new(commands), nil)
		if err != nil {
			t.Fatal(err)
		}
		return parser
	}
	all := 0
	for _, leaf := range parse().Model.Leaves(true) {
		path := strings.TrimPrefix(leaf.FullPath(), p.Name+" ")
		if slices.Contains([]string{"help", "version", "completion", "man"}, path) {
			continue
		}
		list := p.ExamplesOf(leaf.FullPath())
		if len(list) != 3 {
			t.Errorf("%s has %d examples", path, len(list))
		}
		all += len(list)
		for _, example := range list {
			var words []string
			for k, part := range strings.Split(example, "'") {
				if k%2 == 1 {
					words = append(words, part)
				} else {
					words = append(words, strings.Fields(part)...)
				}
			}
			if _, err := parse().Parse(words[1:]); err != nil {
				t.Errorf("%s: %v", example, err)
			}
		}
	}
	if lines := strings.Count(p.Examples, "\n"); lines != all {
		t.Errorf("%d of %d examples are of no command", lines-all, lines)
	}
}
