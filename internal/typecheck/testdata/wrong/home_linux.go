package wrong

func home() string { return "/home" }
