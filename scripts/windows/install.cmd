@echo off
rem Installs the procfleet agent as a service, or brings an installed one to this version. Asks nothing. Run as an administrator:
rem
rem   install.cmd /collector HOST[:PORT] /tokenfile FILE [/name HOST] [/set "KEY: VALUE"]...
rem               [/certs DIR] [/dir DIR] [/data DIR] [/account NAME] [/nostart]
rem
rem   /collector  the collector's ingest listener (collector.addresses); several separated by commas, in quotes
rem   /tokenfile  file with a token of 'procfleet-collector pki token create': the agent enrols with it, at port 7423 of the
rem               first collector unless /set "collector.enroll_address: HOST:PORT" says otherwise
rem   /certs      in place of it, a directory with ca.pem and HOST.pem, HOST.key, as 'procfleet-collector pki issue' writes them
rem   /name       name to enrol as, or HOST of these files; default: this computer's name
rem   /set        one more line of the configuration; may be repeated
rem   /dir        where the programs go; default: %ProgramFiles%\procfleet
rem   /data       configuration, keys and state; default: %ProgramData%\procfleet
rem   /account    whom the service runs as; default LocalSystem; e.g. "NT SERVICE\procfleet-agent"
rem   /nostart    do not start the service
rem
rem A configuration or key that is there already is kept as it is: then /collector, /tokenfile, /certs and /set do nothing. The
rem service keeps its account, unless /dir, /data or /account is given. A directory for data that others have made or can change is
rem refused: see 'procfleet-agent service prepare', which does all of that.
rem Exit codes: 0 installed, 1 files cannot be written (not an administrator?), 2 wrong usage or configuration,
rem 3 the service cannot be installed, 4 it does not start, 5 a directory cannot be trusted or made, 6 not enrolled.

setlocal
set "FROM=%~dp0"
set "DIR=%ProgramFiles%\procfleet"
set "DATA=%ProgramData%\procfleet"
set "NAME=%COMPUTERNAME%"
set "COLLECTOR="
set "CERTS="
set "TOKENFILE="
set "ACCOUNT="
set "NOSTART="
set "ELSEWHERE="
set "LINES="

:next
if "%~1"=="" goto check
if /i "%~1"=="/nostart" goto nostart
if /i "%~1"=="/?" goto usage
if "%~2"=="" goto usage
if /i "%~1"=="/collector" goto collector
if /i "%~1"=="/certs" goto certs
if /i "%~1"=="/tokenfile" goto tokenfile
if /i "%~1"=="/name" goto name
if /i "%~1"=="/set" goto line
if /i "%~1"=="/dir" goto dir
if /i "%~1"=="/data" goto data
if /i "%~1"=="/account" goto account
echo install: unknown option %1
goto usage

:nostart
set "NOSTART=1"
shift
goto next
:collector
set "COLLECTOR=%~2"
goto taken
:certs
set "CERTS=%~2"
goto taken
:tokenfile
set "TOKENFILE=%~2"
goto taken
:name
set "NAME=%~2"
goto taken
:line
set LINES=%LINES% --line "%~2"
goto taken
:dir
set "DIR=%~2"
set "ELSEWHERE=1"
goto taken
:data
set "DATA=%~2"
set "ELSEWHERE=1"
goto taken
:account
set "ACCOUNT=%~2"
set "ELSEWHERE=1"
:taken
shift
shift
goto next

:usage
echo usage: install.cmd /collector HOST[:PORT] /tokenfile FILE [/name HOST] [/set "KEY: VALUE"]...
echo                    [/certs DIR] [/dir DIR] [/data DIR] [/account NAME] [/nostart]
exit /b 2

rem -- what would fail later fails before anything is changed --
:check
set "CONFIG=%DATA%\agent.yaml"
set "AGENT=%DIR%\procfleet-agent.exe"
if not exist "%FROM%procfleet-agent.exe" echo install: procfleet-agent.exe is not beside install.cmd& goto usage
if exist "%CONFIG%" goto keys_needed
if "%COLLECTOR%"=="" echo install: /collector is needed, there is no %CONFIG% yet& goto usage
:keys_needed
if exist "%DATA%\tls\agent.key" goto programs
if not "%TOKENFILE%"=="" goto token_needed
if "%CERTS%"=="" echo install: /tokenfile or /certs is needed, there is no %DATA%\tls\agent.key yet& goto usage
if not exist "%CERTS%\ca.pem" echo install: there is no %CERTS%\ca.pem& goto usage
if not exist "%CERTS%\%NAME%.pem" echo install: there is no %CERTS%\%NAME%.pem; see /name& goto usage
if not exist "%CERTS%\%NAME%.key" echo install: there is no %CERTS%\%NAME%.key; see /name& goto usage
goto programs
:token_needed
if not exist "%TOKENFILE%" echo install: there is no %TOKENFILE%& goto usage

rem -- programs: a file that still runs can be moved, not replaced; what fails gets it back --
:programs
"%FROM%procfleet-agent.exe" service stop >nul 2>&1
if not exist "%DIR%\" mkdir "%DIR%"
if exist "%AGENT%" move /y "%AGENT%" "%AGENT%.old" >nul
for %%f in (procfleet-agent.exe procfleet-etl.exe procfleet.exe uninstall.cmd agent.sample.yaml README.txt) do (
    copy /y "%FROM%%%f" "%DIR%\%%f" >nul
    if errorlevel 1 goto not_written
)
if exist "%AGENT%.old" del /f /q "%AGENT%.old" >nul 2>&1

rem -- data: the agent itself makes it, for administrators and the system only. It is run from here until it has found that nobody
rem    else can have put a program or a library into /dir --
set "HAS=--token-file"
if "%TOKENFILE%"=="" set "HAS=--certs"
if "%TOKENFILE%"=="" set "TOKENFILE=%CERTS%"
"%FROM%procfleet-agent.exe" service prepare --programs "%DIR%\." --data "%DATA%" --account "%ACCOUNT%" --collector "%COLLECTOR%" %HAS% "%TOKENFILE%" --name "%NAME%" %LINES%
if errorlevel 3 exit /b 6
if errorlevel 2 exit /b 2
if errorlevel 1 exit /b 5

if not "%ELSEWHERE%"=="" "%AGENT%" service uninstall >nul 2>&1
"%AGENT%" service install --keep --config "%CONFIG%" --account "%ACCOUNT%"
if errorlevel 3 exit /b 3
if errorlevel 2 exit /b 2
if errorlevel 1 exit /b 3
if "%NOSTART%"=="1" exit /b 0
"%AGENT%" service start
if errorlevel 1 exit /b 4
exit /b 0

:not_written
if not exist "%AGENT%" if exist "%AGENT%.old" move /y "%AGENT%.old" "%AGENT%" >nul
echo install: cannot write to %DIR% or %DATA%; run this as an administrator
exit /b 1
