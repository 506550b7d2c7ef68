package cli

// withoutBashCompletion defines the two bash functions of the bash-completion package that cobra's completion script
// calls, for systems without that package. The functions split words at blanks only, because no argument of larder
// contains one.
const withoutBashCompletion = `
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
    _get_comp_words_by_ref()
    {
        local typed=${COMP_LINE:0:COMP_POINT}
        read -r -a words <<< "$typed"
        if [[ -z $typed || $typed == *[[:space:]] ]]; then
            words+=("")
        fi
        cword=$((${#words[@]} - 1))
        cur=${words[cword]}
        prev=""
        if ((cword > 0)); then
            prev=${words[cword - 1]}
        fi
    }
fi
if ! declare -F __ltrim_colon_completions >/dev/null 2>&1; then
    __ltrim_colon_completions()
    {
        if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then
            local prefix=${1%"${1##*:}"} i
            for i in "${!COMPREPLY[@]}"; do
                COMPREPLY[i]=${COMPREPLY[i]#"$prefix"}
            done
        fi
    }
fi
`
