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
rem A configuration or key that is there already is kept as it is: then /collector, /tokenfile, /certs and /set do nothing. So is the
rem service, unless /dir, /data or /account is given.
rem Exit codes: 0 installed, 1 files cannot be written (not an administrator?), 2 wrong usage or configuration,
rem 3 the service cannot be installed, 4 it does not start, 5 access rights cannot be set, 6 not enrolled.

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
set "NEW="
set "LINES=%TEMP%\procfleet-install-%RANDOM%%RANDOM%.tmp"
type nul >"%LINES%"

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
>>"%LINES%" echo %~2
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
del "%LINES%" >nul 2>&1
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
if exist "%AGENT%" "%AGENT%" service stop >nul 2>&1
if not exist "%DIR%\" mkdir "%DIR%"
if exist "%AGENT%" move /y "%AGENT%" "%AGENT%.old" >nul
for %%f in (procfleet-agent.exe procfleet-etl.exe procfleet.exe uninstall.cmd agent.sample.yaml README.txt) do (
    copy /y "%FROM%%%f" "%DIR%\%%f" >nul
    if errorlevel 1 goto not_written
)
if exist "%AGENT%.old" del /f /q "%AGENT%.old" >nul 2>&1

rem -- data: for administrators and the system only; what is made in it later inherits that --
if not exist "%DATA%\" mkdir "%DATA%"
if not exist "%DATA%\" goto not_written
icacls "%DATA%" /inheritance:r /grant:r "*S-1-5-32-544:(OI)(CI)F" "*S-1-5-18:(OI)(CI)F" >nul
if errorlevel 1 goto no_rights
if not exist "%DATA%\tls\" mkdir "%DATA%\tls"
if exist "%DATA%\tls\agent.key" goto config
if not "%TOKENFILE%"=="" goto config
copy /y "%CERTS%\ca.pem" "%DATA%\tls\ca.pem" >nul
if errorlevel 1 goto not_written
copy /y "%CERTS%\%NAME%.pem" "%DATA%\tls\agent.pem" >nul
if errorlevel 1 goto not_written
copy /y "%CERTS%\%NAME%.key" "%DATA%\tls\agent.key" >nul
if errorlevel 1 goto not_written

:config
if exist "%CONFIG%" goto enroll
>"%CONFIG%.new" echo # Every setting: agent.sample.yaml beside the programs.
if not exist "%CONFIG%.new" goto not_written
>>"%CONFIG%.new" echo state_dir: '%DATA%'
>>"%CONFIG%.new" echo collector.addresses: [%COLLECTOR%]
type "%LINES%" >>"%CONFIG%.new"
move /y "%CONFIG%.new" "%CONFIG%" >nul
if errorlevel 1 goto not_written
set "NEW=1"

:enroll
if "%TOKENFILE%"=="" goto service
if exist "%DATA%\tls\agent.pem" goto service
"%AGENT%" enroll --config "%CONFIG%" --token-file "%TOKENFILE%" --name "%NAME%"
if errorlevel 1 goto not_enrolled

:service
"%AGENT%" service status >"%LINES%" 2>&1
find "not installed" "%LINES%" >nul
if not errorlevel 1 goto install
if "%ELSEWHERE%"=="" goto start
"%AGENT%" service uninstall >nul 2>&1
:install
del "%LINES%" >nul 2>&1
if "%ACCOUNT%"=="" "%AGENT%" service install --config "%CONFIG%"
if not "%ACCOUNT%"=="" "%AGENT%" service install --config "%CONFIG%" --account "%ACCOUNT%"
if errorlevel 3 exit /b 3
if errorlevel 2 goto wrong
if errorlevel 1 exit /b 3
if "%ACCOUNT%"=="" goto start
icacls "%DATA%" /grant "%ACCOUNT%:(OI)(CI)M" >nul
if errorlevel 1 goto no_rights
rem A key that was made here inherits nothing.
if exist "%DATA%\tls\agent.key" icacls "%DATA%\tls\agent.key" /grant "%ACCOUNT%:M" >nul
if errorlevel 1 goto no_rights
rem The group Performance Log Users by its number: its name depends on the language. A member already is fine.
powershell -NoProfile -Command "Add-LocalGroupMember -SID S-1-5-32-559 -Member '%ACCOUNT%'" >nul 2>&1
if errorlevel 1 echo install: %ACCOUNT% could not be added to Performance Log Users; see that it is a member, or processes are only compared
:start
del "%LINES%" >nul 2>&1
if "%NOSTART%"=="1" exit /b 0
"%AGENT%" service start
if errorlevel 1 exit /b 4
exit /b 0

:wrong
rem What was written now and is wrong must not stand in the way of the next try.
if "%NEW%"=="1" del /f /q "%CONFIG%"
exit /b 2
:not_enrolled
del "%LINES%" >nul 2>&1
rem An address that was written now and is wrong must not stand in the way either.
if "%NEW%"=="1" del /f /q "%CONFIG%"
exit /b 6
:not_written
del "%LINES%" >nul 2>&1
if not exist "%AGENT%" if exist "%AGENT%.old" move /y "%AGENT%.old" "%AGENT%" >nul
echo install: cannot write to %DIR% or %DATA%; run this as an administrator
exit /b 1
:no_rights
del "%LINES%" >nul 2>&1
echo install: cannot set the access rights of %DATA%
exit /b 5
