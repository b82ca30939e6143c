@echo off
rem Removes the procfleet agent: its service, the trace sessions it may have left behind, its programs. Run as an administrator:
rem
rem   uninstall.cmd [/purge] [/dir DIR] [/data DIR]
rem
rem Configuration, keys and state stay unless /purge is given. /dir and /data as for install.cmd.
rem Exit codes: 0 removed, 1 files cannot be removed (not an administrator?), 2 wrong usage, 3 the service cannot be removed.

setlocal
set "DIR=%ProgramFiles%\procfleet"
set "DATA=%ProgramData%\procfleet"
set "PURGE="

:next
if "%~1"=="" goto service
if /i "%~1"=="/purge" goto purge
if "%~2"=="" goto usage
if /i "%~1"=="/dir" goto dir
if /i "%~1"=="/data" goto data
:usage
echo usage: uninstall.cmd [/purge] [/dir DIR] [/data DIR]
exit /b 2
:purge
set "PURGE=1"
shift
goto next
:dir
set "DIR=%~2"
goto taken
:data
set "DATA=%~2"
:taken
shift
shift
goto next

rem Removing the service also stops our own sessions.
:service
set "AGENT=%DIR%\procfleet-agent.exe"
if not exist "%AGENT%" goto files
"%AGENT%" service uninstall
if errorlevel 1 exit /b 3

:files
if "%PURGE%"=="1" if exist "%DATA%\" rd /s /q "%DATA%"
if "%PURGE%"=="1" if exist "%DATA%\" goto not_removed
for %%f in (procfleet-agent.exe procfleet-agent.exe.old procfleet-etl.exe procfleet.exe agent.sample.yaml README.txt) do (
    if exist "%DIR%\%%f" del /f /q "%DIR%\%%f"
)
if exist "%AGENT%" goto not_removed
if not exist "%DIR%\uninstall.cmd" exit /b 0
rem The last line: the script may be the file it removes.
del /f /q "%DIR%\uninstall.cmd" & rd "%DIR%" >nul 2>&1 & exit /b 0

:not_removed
echo uninstall: not everything could be removed; run this as an administrator, and see that nobody uses the files
exit /b 1
