package records

import (
	"fmt"

	"github.com/fedsim/fedsim/dataset"
)

// Tally counts records and keeps the lines of the first.
type Tally struct {
	Count int
	Lines []int
}

func (c *Tally) Add(line int) {
	if c.Count++; len(c.Lines) < MostLines {
		c.Lines = append(c.Lines, line)
	}
}

// Join adds records of another file.
func (c *Tally) Join(other Tally) {
	c.Count += other.Count
	c.Lines = append(c.Lines, other.Lines...)
	c.Lines = c.Lines[:min(len(c.Lines), MostLines)]
}

// Notice makes a notice of the records that were counted.
func (c *Tally) Notice(kind dataset.NoticeKind, text string) dataset.Notice {
	return dataset.Notice{Kind: kind, Text: fmt.Sprintf("%d %s", c.Count, text), Count: c.Count, Lines: c.Lines}
}

// MostLines limits the lines of a notice.
const MostLines = 10
