package command

import (
	"io"

	"github.com/fedsim/fedsim/internal/cli"
)

// printer is a report that prints itself for people.
type printer interface {
	Print(w io.Writer) error
}

// printAs writes a report: as an object where the format is json.
func printAs(w io.Writer, format string, report printer) error {
	if format == "json" {
		return cli.PrintJSON(w, report)
	}
	return report.Print(w)
}
