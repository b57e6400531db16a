package command

import _ "github.com/fedsim/fedsim/lab/command" // tests need every verb and algorithm that people have
