package command

import (
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
)

// usersBeside lists the ids of all users beside their ratings: see clientCmd.IDs.
const usersBeside = "users.txt"

// readIDs reads the ids of clients, one a line. The list must not follow from the ratings: then no
// reader of it learns who has ratings.
func readIDs(path string) ([]string, error) { return read.IDs(path, false) }

func misused(what string, err error) error {
	if err == nil {
		return nil
	}
	return cli.Misusef("%s: %w", what, err)
}
