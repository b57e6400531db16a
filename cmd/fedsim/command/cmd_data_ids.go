package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/verb"
)

type dataIDsCmd struct {
	Data string `arg:"" help:"As for fedsim run --data."`
	dataFlags
	Of string `enum:"users,items" default:"users" help:"users or items."`
}

// Run prints the ids of all users, or items, with a usable rating. Other commands report ratings that cannot be used.
func (c *dataIDsCmd) Run(ctx context.Context, s verb.Streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Skipped = func(*dataset.FileError) {}
	set, err := read.Open(ctx, c.Data, o)
	if err != nil {
		return misread(err)
	}
	verb.Notify(set.Notices, s)
	ids := set.UserIDs
	if c.Of == "items" {
		ids = set.ItemIDs
	}
	w := bufio.NewWriter(s.Out)
	for _, id := range ids {
		if strings.ContainsAny(id, "\r\n") {
			return fmt.Errorf("the id %q goes over several lines, and cannot be listed one a line", id)
		}
		fmt.Fprintln(w, id)
	}
	return w.Flush()
}
