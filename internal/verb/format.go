package verb

import (
	"io"

	"github.com/fedsim/fedsim/internal/cli"
)

// Printer is a report that prints itself for people.
type Printer interface {
	Print(w io.Writer) error
}

// PrintAs writes a report: as an object where the format is json.
func PrintAs(w io.Writer, format string, report Printer) error {
	if format == "json" {
		return cli.PrintJSON(w, report)
	}
	return report.Print(w)
}
