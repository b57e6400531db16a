package command

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/fedsim/fedsim/internal/cli"
)

// usersBeside lists the ids of all users beside their ratings: see clientCmd.IDs.
const usersBeside = "users.txt"

// readIDs reads ids, one a line, each once. The list must not follow from the ratings: then no
// reader of it learns who has ratings.
func readIDs(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s is not UTF-8; convert the file", path)
	}
	all := strings.TrimSuffix(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	if strings.TrimSpace(all) == "" {
		return nil, fmt.Errorf("%s holds no id; one a line is needed", path)
	}
	var ids []string
	lines := make(map[string]int)
	for line := range strings.SplitSeq(all, "\n") {
		id := strings.TrimSuffix(line, "\r")
		ids = append(ids, id)
		switch before := lines[id]; {
		case id == "":
			return nil, fmt.Errorf("%s, line %d, is empty; an id is needed on each", path, len(ids))
		case before > 0:
			return nil, fmt.Errorf("%s, line %d: the id %q stands on line %d already; keep one of the two", path, len(ids), id, before)
		}
		lines[id] = len(ids)
	}
	return ids, nil
}

func misused(what string, err error) error {
	if err == nil {
		return nil
	}
	return cli.Misusef("%s: %w", what, err)
}
