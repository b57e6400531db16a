package command

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/cli"
)

var updateCLI = flag.Bool("update-cli", false, "write the page about the command line")

// The page about the command line is what the commands say of themselves.
func TestCommandLinePage(t *testing.T) {
	const path = "../../../docs/cli-fednode.md"
	parser, err := program.Parser(new(commands))
	if err != nil {
		t.Fatal(err)
	}
	got := "# The command line of fednode\n\n<!-- Made from the commands by \"go test ./cmd/fednode/... -run TestCommandLinePage -update-cli\". Do not edit. -->\n\n" + cli.Markdown(parser.Model)
	if *updateCLI {
		if err = os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is not what the commands say; run the test with -update-cli (-page +commands):\n%s", path, d)
	}
}
