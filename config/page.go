package config

import (
	"fmt"
	"slices"
	"strings"
)

// Page returns the page of the documentation about all keys, in Markdown. all lists the names of
// the algorithms, and has reports whether an algorithm has a key.
func Page(all []string, has func(algorithm string, k *Key) bool) []byte {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the declarations of the keys by "go test . -run TestConfigurationPage -update". Do not edit. -->

An experiment file is YAML with these keys. A dot stands between a section and the rest.
A flag of the same name, where there is one, wins over the file. ` + "`--set key=value`" + ` sets any key.
` + "`auto`" + ` lets fedsim choose; ` + "`fedsim plan --format yaml`" + ` prints every value that it chose.

Scope says which parties a key concerns. *Agreed* keys are the same for all parties of a deployment.
*Simulation* keys have a meaning only in a simulation, *deployment* keys only in a deployment. *Own* keys are each party's own.
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

// only lists the algorithms that have a key, or the few that do not.
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

// values is [Key.Values] in a table of Markdown.
func (k *Key) values() string {
	if k.Kind == Word && len(k.Words) > 0 {
		return cell("`" + strings.Join(k.Words, "`, `") + "`")
	}
	return cell(k.Values())
}

// Values says in a few words what the key may be: its words, its range with the unit, or its kind.
func (k *Key) Values() string {
	switch k.Kind {
	case Word:
		if len(k.Words) == 0 {
			return "name"
		}
		return strings.Join(k.Words, ", ")
	case Text:
		return "text"
	case Seed:
		return "whole number"
	case Whole:
		return "whole number, " + k.Range.String() + k.unit()
	default:
		return k.Range.String() + k.unit()
	}
}

func (k *Key) unit() string {
	if k.Unit == "" {
		return ""
	}
	return " " + k.Unit
}

// standard is [Key.Standard] in a table of Markdown.
func (k *Key) standard() string {
	if k.Auto == "" && k.Default != "" {
		return "`" + k.Default + "`"
	}
	return cell(k.Standard())
}

// Standard says what the value is if none is given: the default, how auto is found, or none.
func (k *Key) Standard() string {
	switch {
	case k.Auto != "":
		return "auto: " + k.Auto
	case k.Default == "":
		return "none"
	default:
		return k.Default
	}
}

// cell keeps a text inside a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// String names the scope.
func (s Scope) String() string {
	return [...]string{Agreed: "agreed", Simulated: "simulation", Deployed: "deployment", Own: "own"}[s]
}
