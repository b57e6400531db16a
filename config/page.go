package config

import (
	"fmt"
	"slices"
	"strings"
)

// Page is the page of the documentation about all keys, in Markdown. all are the names of
// the algorithms, and has reports whether one has a key.
func Page(all []string, has func(algorithm string, k *Key) bool) []byte {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the declarations of the keys by "go test . -run TestConfigurationPage -update". Do not edit. -->

An experiment file is YAML with these keys. A dot stands between a section and the rest.
A flag of the same name, where there is one, wins over the file. ` + "`--set key=value`" + ` sets any key.
` + "`auto`" + ` lets fedsim choose; ` + "`fedsim plan --format yaml`" + ` prints every value that it chose.

Scope says who goes by a key: *agreed* keys are the same for all parties of a deployment, *simulation* keys
mean something in a simulation alone, *deployment* keys in a deployment alone, *own* keys are everybody's own.
`)
	section := "none yet"
	for _, k := range Keys() {
		if s := k.Section(); s != section {
			section = s
			if title := section; title == "" {
				b.WriteString("\n## Without a section\n")
			} else {
				fmt.Fprintf(&b, "\n## %s\n", title)
			}
			b.WriteString("\n| key | value | default | scope | what it is |\n|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.values(), k.standard(), k.Scope, cell(k.Help+only(all, func(name string) bool { return has(name, k) })))
	}
	return []byte(b.String())
}

// only says which algorithms have a key, or which few have not.
func only(all []string, has func(string) bool) string {
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

// values says what a key may be.
func (k *Key) values() string {
	switch k.Kind {
	case Word:
		if len(k.Words) == 0 {
			return "name"
		}
		return cell("`" + strings.Join(k.Words, "`, `") + "`")
	case Text:
		return "text"
	case Seed:
		return "whole number"
	case Whole:
		return cell("whole number, " + k.Range.String() + k.unit())
	default:
		return cell(k.Range.String() + k.unit())
	}
}

func (k *Key) unit() string {
	if k.Unit == "" {
		return ""
	}
	return " " + k.Unit
}

// standard says what a key is where it is not given.
func (k *Key) standard() string {
	switch {
	case k.Auto != "":
		return cell("auto: " + k.Auto)
	case k.Default == "":
		return "none"
	default:
		return "`" + k.Default + "`"
	}
}

// cell keeps a text inside a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// String names the scope.
func (s Scope) String() string {
	return [...]string{Agreed: "agreed", Simulated: "simulation", Deployed: "deployment", Own: "own"}[s]
}
