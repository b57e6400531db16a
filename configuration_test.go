package fedsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/lab" // the page lists every algorithm
)

// TestConfigurationPage checks docs/reference/configuration.md against the declarations.
func TestConfigurationPage(t *testing.T) {
	got := keysPage(algorithm.Names(), func(name string, k *config.Key) bool {
		return slices.Contains(algorithm.Find(name).About().Used(), k)
	})
	samePage(t, "docs/reference/configuration.md", got)
}

// keysPage returns the page of the documentation about all keys, in Markdown. all lists the names of
// the algorithms, and has reports whether an algorithm has a key.
func keysPage(all []string, has func(algorithm string, k *config.Key) bool) []byte {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the declarations of the keys by "go test . -run TestConfigurationPage -update". Do not edit. -->

An experiment file is YAML with these keys. A dot stands between a section and the rest.
A key may have a flag of the same name; ` + "`--set key=value`" + ` sets any key. Two values for one key are an error that names both, wherever they come from.
` + "`--from FILE`" + ` starts from the settings of a file, and flags replace them with a warning.
` + "`auto`" + ` lets fedsim choose; ` + "`fedsim plan --format yaml`" + ` prints every value that it chose.

Scope says which parties a key concerns. *Agreed* keys are the same for all parties of a deployment.
*Simulation* keys have a meaning only in a simulation, *deployment* keys only in a deployment. *Own* keys are each party's own.
`)
	section := "none yet"
	for _, k := range config.Keys() {
		if s := k.Section(); s != section {
			section = s
			if title := section; title == "" {
				b.WriteString("\n## Without a section\n")
			} else {
				fmt.Fprintf(&b, "\n## %s\n", title)
			}
			b.WriteString("\n| key | value | default | scope | what it is |\n|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, valuesCell(k), standardCell(k), k.Scope, cell(k.Help+exceptions(all, func(name string) bool { return has(name, k) })))
	}
	return []byte(b.String())
}

// exceptions lists the algorithms that have a key, or the few that do not.
func exceptions(all []string, has func(string) bool) string {
	with := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !has(name) })
	without := slices.DeleteFunc(slices.Clone(all), has)
	switch {
	case len(without) == 0:
		return ""
	case len(without) < len(with):
		return " *Not of " + strings.Join(without, ", ") + ".*"
	default:
		return " *Of " + strings.Join(with, ", ") + ".*"
	}
}

// valuesCell is [config.Key.Values] in a table of Markdown.
func valuesCell(k *config.Key) string {
	if k.Kind == config.Word && len(k.Words) > 0 {
		return cell("`" + strings.Join(k.Words, "`, `") + "`")
	}
	return cell(k.Values())
}

// standardCell is [config.Key.Standard] in a table of Markdown.
func standardCell(k *config.Key) string {
	if k.Auto == "" && k.Default != "" {
		return "`" + k.Default + "`"
	}
	return cell(k.Standard())
}

// cell keeps a text inside a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
