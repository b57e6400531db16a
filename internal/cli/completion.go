package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completion returns a script for a shell: bash, zsh or fish. The script completes commands, flags, values that are one of
// a list or that values holds by the name of their flag, finished runs after --run, and else files.
func completion(app *kong.Application, shell string, values map[string][]string) string {
	switch shell {
	case "fish":
		return fish(app, values)
	case "zsh":
		return fmt.Sprintf("#compdef %s\nautoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n", app.Name) + bash(app, values)
	default:
		return bash(app, values)
	}
}

// choices returns the possible values, from the tag enum, which kong checks, or from the tag
// choices, which kong does not check; nil if there is no list.
func choices(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	return strings.Fields(v.Tag.Get("choices"))
}

// runsFolder is where a shell looks for finished runs.
const runsFolder = "runs"

// valuesOf lists the values of a flag: its own list, or what is known by its name.
func valuesOf(f *kong.Flag, known map[string][]string) []string {
	if own := choices(f.Value); len(own) > 0 {
		return own
	}
	return known[f.Name]
}

// words returns the words that may follow each command: commands or values of its argument.
func words(app *kong.Application) map[string][]string {
	after := make(map[string][]string)
	for _, c := range commands(app.Node, app.Name) {
		path := strings.Fields(c.path)
		for i := 1; i < len(path); i++ {
			before := strings.Join(path[:i], " ")
			if !slices.Contains(after[before], path[i]) {
				after[before] = append(after[before], path[i])
			}
		}
		if len(c.Positional) == 1 {
			after[c.path] = choices(c.Positional[0])
		}
	}
	return after
}

// bash finds the command that the words before the cursor name, and offers what may stand there.
func bash(app *kong.Application, known map[string][]string) string {
	after := words(app)
	values := make(map[string][]string) // of "fedsim run --format"
	flags := map[string][]string{app.Name: {"--help"}}
	for _, f := range app.Flags {
		if f.Name != "help" && !f.Hidden {
			flags[app.Name] = append(flags[app.Name], "--"+f.Name)
		}
	}
	for _, c := range commands(app.Node, app.Name) {
		for _, f := range c.flags() {
			flags[c.path] = append(flags[c.path], "--"+f.Name)
			values[c.path+" --"+f.Name] = valuesOf(f, known)
		}
		flags[c.path] = append(flags[c.path], "--help")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "_%[1]s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=%[1]s words= i\n", app.Name)
	// Bash takes --format=json apart into three words.
	b.WriteString("  [[ $cur == = ]] && cur=\n  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n")
	b.WriteString("  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$at ${COMP_WORDS[i]}\" in\n")
	both := slices.Concat(slices.Collect(maps.Keys(after)), slices.Collect(maps.Keys(flags)))
	slices.Sort(both)
	for _, path := range slices.Compact(both) {
		if path != app.Name {
			fmt.Fprintf(&b, "      %[1]q) at=%[1]q ;;\n", path)
		}
	}
	b.WriteString("    esac\n  done\n")
	b.WriteString("  case \"$at $prev\" in\n" + cases(values) + "    *\" --run\") words=$(ls -d " + runsFolder + "/*/ 2>/dev/null) ;;\n  *)\n")
	b.WriteString("  if [[ $cur == -* ]]; then\n  case \"$at\" in\n" + cases(flags) + "  esac\n")
	b.WriteString("  else\n  case \"$at\" in\n" + cases(after) + "  esac\n  fi ;;\n  esac\n")
	fmt.Fprintf(&b, "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n}\ncomplete -o default -F _%[1]s %[1]s\n", app.Name)
	return b.String()
}

// cases returns the cases of a case statement that sets words.
func cases(words map[string][]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(words)) {
		if len(words[key]) > 0 {
			fmt.Fprintf(&b, "    %q) words=%q ;;\n", key, strings.Join(words[key], " "))
		}
	}
	return b.String()
}

func fish(app *kong.Application, known map[string][]string) string {
	var b strings.Builder
	line := func(when, rest, help string) {
		fmt.Fprintf(&b, "complete -c %s -n %s %s -d %s\n", app.Name, quote(when), rest, quote(help))
	}
	seen := func(path []string) string {
		conditions := make([]string, len(path))
		for i, word := range path {
			conditions[i] = "__fish_seen_subcommand_from " + word
		}
		return strings.Join(conditions, "; and ")
	}
	after := words(app)
	for _, group := range app.Children {
		if !group.Hidden {
			line("__fish_use_subcommand", "-a "+group.Name, group.Help)
		}
	}
	for _, c := range commands(app.Node, app.Name) {
		path := strings.Fields(c.path)[1:]
		if last := len(path) - 1; last > 0 {
			line(seen(path[:last])+"; and not __fish_seen_subcommand_from "+path[last], "-a "+path[last], c.Help)
		}
		for _, f := range c.flags() {
			rest := "-l " + f.Name
			switch list := valuesOf(f, known); {
			case f.Name == "run":
				rest += " -x -a '(ls -d " + runsFolder + "/*/ 2>/dev/null)'"
			case len(list) > 0:
				rest += " -x -a " + quote(strings.Join(list, " "))
			case !f.IsBool():
				rest += " -r"
			}
			line(seen(path), rest, f.Help)
		}
		if list := after[c.path]; len(list) > 0 {
			line(seen(path), "-f -a "+quote(strings.Join(list, " ")), c.Positional[0].Help)
		}
	}
	return b.String()
}

// quote keeps fish from reading anything into a text.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
